// Intersect: the elements that two sets have in common.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "shoal/layout/shard.h"

namespace shoal::layout {

// The common box, or nothing if it would be empty. @pre as many dims.
std::optional<Box> Intersect(const Box& a, const Box& b);

// The elements of both shards (of one tensor) as boxes.
// @post disjoint, none empty, together exactly the common elements; at most (2 * dims - 1)^2.
// @post each lies in one box of BoxesOf(a) and one of BoxesOf(b), in the order of a's storage.
std::vector<Box> Intersect(const Shard& a, const Shard& b);

}  // namespace shoal::layout
