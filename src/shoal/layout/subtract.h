// Subtract: the elements of one set that are not in another.
//
// Thread-safety: pure functions.
#pragma once

#include <span>
#include <vector>

#include "shoal/layout/shard.h"

namespace shoal::layout {

// The elements of `a` that are not in `b`. @pre as many dims.
// @post disjoint, none empty, together exactly the difference; at most 2 * dims boxes.
std::vector<Box> Subtract(const Box& a, const Box& b);

// The elements of the boxes `a` that are in no box of `b`. @pre the boxes of `a` are disjoint.
// @post disjoint, none empty, together exactly the difference.
std::vector<Box> Subtract(std::vector<Box> a, std::span<const Box> b);

// The elements of shard `a` that are not in shard `b` (of the same tensor).
// @post as above.
std::vector<Box> Subtract(const Shard& a, const Shard& b);

}  // namespace shoal::layout
