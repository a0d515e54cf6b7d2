// Equivalent: do two layouts store the same elements at the same places, however they are written?
//
// Thread-safety: pure functions.
#pragma once

#include <span>

#include "shoal/layout/layout.h"
#include "shoal/layout/shard.h"

namespace shoal::layout {

// True if the shards, stored one after the other, give the same elements in the same order: nothing
// moves.
// @pre shards of one tensor, in each list disjoint.
bool Equivalent(std::span<const Shard> a, std::span<const Shard> b);

// True if both have the same ranks, tensors (name, shape, dtype) and replicas, and every rank
// stores every tensor in the same way. The order of ranks and tensors does not matter.
bool Equivalent(const Layout& a, const Layout& b);

}  // namespace shoal::layout
