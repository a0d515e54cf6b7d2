#include "shoal/torch/engine/copy.h"

#include <ATen/core/Tensor.h>

#include <cstring>

namespace shoal::engine {
namespace {

// Larger copies gain from torch's threads.
constexpr size_t kMaxPlainBytes = size_t{1} << 22;

}  // namespace

void CopyInto(const at::Tensor& view, const at::Tensor& grad) {
  const bool plain = view.is_cpu() && grad.is_cpu() && view.scalar_type() == grad.scalar_type() &&
                     view.layout() == at::kStrided && grad.layout() == at::kStrided &&
                     view.strides() == grad.strides() && view.sizes() == grad.sizes() &&
                     view.is_non_overlapping_and_dense() && view.nbytes() <= kMaxPlainBytes &&
                     !grad.is_conj() && !grad.is_neg();
  if (plain) {
    std::memcpy(view.mutable_data_ptr(), grad.const_data_ptr(), view.nbytes());
  } else {
    view.copy_(grad);
  }
}

}  // namespace shoal::engine
