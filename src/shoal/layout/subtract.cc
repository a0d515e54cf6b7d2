#include "shoal/layout/subtract.h"

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "shoal/layout/intersect.h"
#include "shoal/layout/shard.h"

namespace shoal::layout {

std::vector<Box> Subtract(const Box& a, const Box& b) {
  const std::optional<Box> common = Intersect(a, b);
  if (!common) return a.numel() == 0 ? std::vector<Box>() : std::vector<Box>{a};
  std::vector<Box> rest;
  Box middle = a;  // what is left to cut: equal to `common` in the dims done so far
  for (size_t dim = 0; dim < a.dims.size(); ++dim) {
    const Range whole = middle.dims[dim];
    const Range cut = common->dims[dim];
    for (const Range part : {Range{whole.begin, cut.begin}, Range{cut.end, whole.end}}) {
      if (part.empty()) continue;
      Box side = middle;
      side.dims[dim] = part;
      rest.push_back(std::move(side));
    }
    middle.dims[dim] = cut;
  }
  return rest;
}

std::vector<Box> Subtract(std::vector<Box> a, std::span<const Box> b) {
  for (const Box& taken : b) {
    std::vector<Box> rest;
    for (const Box& box : a) {
      for (Box& part : Subtract(box, taken)) rest.push_back(std::move(part));
    }
    a = std::move(rest);
  }
  return a;
}

std::vector<Box> Subtract(const Shard& a, const Shard& b) {
  return Subtract(BoxesOf(a), BoxesOf(b));
}

}  // namespace shoal::layout
