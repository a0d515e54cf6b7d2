// Who writes what all ranks hold alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shoal/ckpt/rank_file.h"

namespace shoal::ckpt {

// Rank `rank`'s share of pieces that all `num_ranks` ranks hold alike: together the shares hold
// every element once and differ by less than 2 MiB (pieces from 1 MiB on are split).
// Every rank must pass the same pieces in the same order. Names and data stay borrowed from
// `replicated`. @pre 0 <= rank < num_ranks, every piece's range is valid.
std::vector<PieceToWrite> ShareOfReplicated(std::span<const PieceToWrite> replicated, int64_t rank,
                                            int64_t num_ranks);

}  // namespace shoal::ckpt
