// Range, Box, Shard: sets of elements of one tensor.
//
// A *box* is a range per dim (how tensor, expert and pipeline parallelism cut). A *shard* is a box
// and, inside it, a range of the box' elements in row-major order (how ZeRO cuts the flattened
// box). A shard's elements are stored in row-major order of the box. A 0-dim tensor's box has no
// dims and one element.
//
// Notation, here, in docs and in errors: range "2:8" (half-open), box "[0:4,2:8]", shard
// "[0:4,2:8]{3:17}", the braces left out when the shard is its whole box.
//
// Offsets and sizes count elements; tensors of more than 2^31 elements are fine as long as numel
// fits int64_t. Thread-safety: values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shoal/base/status.h"

namespace shoal::layout {

// The indices begin, ..., end - 1.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
  std::string ToString() const;

  friend bool operator==(const Range&, const Range&) = default;
};

struct Box {
  std::vector<Range> dims;

  // Product of the sizes: 0 if any range is empty, 1 for no dims.
  int64_t numel() const;
  // The size of each dim.
  std::vector<int64_t> shape() const;
  std::string ToString() const;

  friend bool operator==(const Box&, const Box&) = default;
};

struct Shard {
  Box box;
  Range flat;  // of the box' elements in row-major order

  int64_t numel() const { return flat.size(); }
  bool is_whole_box() const { return flat.begin == 0 && flat.end == box.numel(); }
  std::string ToString() const;

  friend bool operator==(const Shard&, const Shard&) = default;
};

// All of a tensor of this shape.
Box WholeTensor(std::span<const int64_t> shape);

// All of a box.
Shard WholeBox(Box box);

// Ok if `shard` lies inside a tensor of `shape`: as many dims, 0 <= begin <= end <= size for each
// and for the flat range inside the box. Every function of this room has this as precondition of
// its shards.
Status CheckInside(const Shard& shard, std::span<const int64_t> shape);

// The shard as boxes: disjoint, none empty, at most 2 * dims - 1, together exactly its elements.
// Each is a contiguous part of the shard's storage, and they are in the order of that storage.
std::vector<Box> BoxesOf(const Shard& shard);

}  // namespace shoal::layout
