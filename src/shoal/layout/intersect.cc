#include "shoal/layout/intersect.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "shoal/base/check.h"
#include "shoal/layout/shard.h"

namespace shoal::layout {

std::optional<Box> Intersect(const Box& a, const Box& b) {
  SHOAL_CHECK(a.dims.size() == b.dims.size());
  Box common = a;
  for (size_t dim = 0; dim < a.dims.size(); ++dim) {
    Range& range = common.dims[dim];
    range.begin = std::max(range.begin, b.dims[dim].begin);
    range.end = std::min(range.end, b.dims[dim].end);
    if (range.empty()) return std::nullopt;
  }
  return common;
}

std::vector<Box> Intersect(const Shard& a, const Shard& b) {
  std::vector<Box> common;
  if (a.flat.empty() || b.flat.empty()) return common;
  const std::vector<Box> boxes_of_b = BoxesOf(b);
  for (const Box& box_of_a : BoxesOf(a)) {
    for (const Box& box_of_b : boxes_of_b) {
      if (std::optional<Box> box = Intersect(box_of_a, box_of_b)) {
        common.push_back(*std::move(box));
      }
    }
  }
  return common;
}

}  // namespace shoal::layout
