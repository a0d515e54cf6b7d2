// SplitDim, SplitFlat: the two ways in which parallelism cuts a box among `count` ranks.
//
// Nothing need divide: pieces are equal but for the last non-empty one, and pieces past the end are
// empty.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "shoal/base/status.h"
#include "shoal/layout/shard.h"

namespace shoal::layout {

// How tensor parallelism cuts: part `index` of dim `dim`, in pieces of ceil(size / count)
// (torch.chunk's rule).
// @post over index = 0..count-1 the results are disjoint and together `box`.
// InvalidArgument: no such dim, count < 1, index outside 0..count-1.
Result<Box> SplitDim(const Box& box, int64_t dim, int64_t index, int64_t count);

// How ZeRO cuts: part `index` of the row-major order, in pieces of `piece_numel` elements; 0 means
// ceil(numel / count).
// @post over index = 0..count-1 the results are disjoint and together `box`.
// InvalidArgument: count < 1, index outside 0..count-1, pieces too small to hold the box.
Result<Shard> SplitFlat(const Box& box, int64_t index, int64_t count, int64_t piece_numel = 0);

}  // namespace shoal::layout
