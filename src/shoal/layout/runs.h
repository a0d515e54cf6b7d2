// Runs: what to copy from one shard's storage to another's, in the fewest pieces.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/layout/shard.h"

namespace shoal::layout {

// `numel` elements that are contiguous in both storages. Offsets count elements from each storage's
// start.
struct CopyRun {
  int64_t source_offset = 0;
  int64_t destination_offset = 0;
  int64_t numel = 0;

  // "3->7 x12": source offset, destination offset, elements.
  std::string ToString() const;

  friend bool operator==(const CopyRun&, const CopyRun&) = default;
};

// The runs that move every common element of two shards of one tensor from source to destination.
// @post in the order of the destination; disjoint in both storages; together exactly the common
// elements.
// @post maximal: no two runs continue each other in both storages.
// Cost: one run per row where rows are cut, so a column split of an [n, m] tensor has n runs.
std::vector<CopyRun> Runs(const Shard& source, const Shard& destination);

}  // namespace shoal::layout
