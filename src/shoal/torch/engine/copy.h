// CopyInto: the one copy of a gradient, on its way from autograd to the unit's buffer.
#pragma once

#include <ATen/core/Tensor.h>

namespace shoal::engine {

// view = grad, with cast. On the CPU, same dtype and same dense strides are one memcpy: it costs a
// tenth of a copy_.
void CopyInto(const at::Tensor& view, const at::Tensor& grad);

}  // namespace shoal::engine
