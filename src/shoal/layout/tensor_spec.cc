#include "shoal/layout/tensor_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>

#include "shoal/base/dtype.h"

namespace shoal::layout {

int64_t TensorSpec::numel() const {
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  return numel;
}

std::string TensorSpec::ToString() const {
  return fmt::format("{}[{}]:{}", name, fmt::join(shape, ","), DTypeName(dtype));
}

}  // namespace shoal::layout
