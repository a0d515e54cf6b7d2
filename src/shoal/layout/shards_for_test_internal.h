// For the tests of this room: the naive meaning of a shard, and random shapes and shards.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "shoal/layout/shard.h"

namespace shoal::layout::testing {

// Row-major index in the tensor of every element of `shard`, in the order of its storage: walks the
// whole tensor.
inline std::vector<int64_t> ElementsOf(const Shard& shard, const std::vector<int64_t>& shape) {
  std::vector<int64_t> elements;
  int64_t in_box = 0;
  const int64_t numel = WholeTensor(shape).numel();
  for (int64_t element = 0; element < numel; ++element) {
    int64_t rest = element;
    bool inside = true;
    for (size_t dim = shape.size(); dim-- > 0;) {
      const int64_t index = rest % shape[dim];
      rest /= shape[dim];
      inside = inside && index >= shard.box.dims[dim].begin && index < shard.box.dims[dim].end;
    }
    if (!inside) continue;
    if (in_box >= shard.flat.begin && in_box < shard.flat.end) elements.push_back(element);
    ++in_box;
  }
  return elements;
}

// The same for boxes one after the other.
inline std::vector<int64_t> ElementsOf(std::span<const Box> boxes,
                                       const std::vector<int64_t>& shape) {
  std::vector<int64_t> elements;
  for (const Box& box : boxes) {
    const std::vector<int64_t> more = ElementsOf(WholeBox(box), shape);
    elements.insert(elements.end(), more.begin(), more.end());
  }
  return elements;
}

inline std::vector<int64_t> Sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

// 0 to 4 dims of 0 to 5.
inline std::vector<int64_t> AnyShape() {
  std::vector<int64_t> shape(*rc::gen::inRange<size_t>(0, 5));
  for (int64_t& size : shape) {
    size = *rc::gen::weightedOneOf<int64_t>(
        {{1, rc::gen::just<int64_t>(0)}, {12, rc::gen::inRange<int64_t>(1, 6)}});
  }
  return shape;
}

// A range inside 0..size, often all of it.
inline Range AnyRange(int64_t size) {
  if (*rc::gen::inRange(0, 3) == 0) return {0, size};
  const int64_t a = *rc::gen::inRange<int64_t>(0, size + 1);
  const int64_t b = *rc::gen::inRange<int64_t>(0, size + 1);
  return {std::min(a, b), std::max(a, b)};
}

inline Shard AnyShard(const std::vector<int64_t>& shape) {
  Shard shard;
  for (const int64_t size : shape) shard.box.dims.push_back(AnyRange(size));
  shard.flat = AnyRange(shard.box.numel());
  return shard;
}

}  // namespace shoal::layout::testing
