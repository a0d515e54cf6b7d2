#include "shoal/layout/compose.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/layout/shard.h"

namespace shoal::layout {

Result<Shard> Compose(const Shard& outer, const Shard& inner) {
  const bool is_whole_box = outer.is_whole_box();
  const std::vector<int64_t> stored =
      is_whole_box ? outer.box.shape() : std::vector<int64_t>{outer.numel()};
  SHOAL_RETURN_IF_ERROR(
      CheckInside(inner, stored).WithContext(fmt::format("composing with {}", outer.ToString())));
  if (!is_whole_box) {
    const int64_t start = outer.flat.begin + inner.box.dims[0].begin;
    return Shard{outer.box, {start + inner.flat.begin, start + inner.flat.end}};
  }
  Shard result = inner;
  for (size_t dim = 0; dim < result.box.dims.size(); ++dim) {
    result.box.dims[dim].begin += outer.box.dims[dim].begin;
    result.box.dims[dim].end += outer.box.dims[dim].begin;
  }
  return result;
}

}  // namespace shoal::layout
