#include "shoal/layout/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/layout/intersect.h"
#include "shoal/layout/shard.h"

namespace shoal::layout {
namespace {

// Storage offsets of elements of a shard.
class Addresses {
 public:
  explicit Addresses(const Shard& shard) : shard_(shard), strides_(shard.box.dims.size(), 1) {
    for (size_t dim = strides_.size(); dim-- > 1;) {
      strides_[dim - 1] = strides_[dim] * shard.box.dims[dim].size();
    }
  }

  int64_t stride(size_t dim) const { return strides_[dim]; }

  // Offset of the first element of `box`. @pre the box lies inside the shard.
  int64_t OffsetOf(const Box& box) const {
    int64_t offset = -shard_.flat.begin;
    for (size_t dim = 0; dim < strides_.size(); ++dim) {
      offset += (box.dims[dim].begin - shard_.box.dims[dim].begin) * strides_[dim];
    }
    return offset;
  }

 private:
  const Shard& shard_;
  std::vector<int64_t> strides_;
};

// Appends the runs of `common`, a box of both shards.
void AppendRuns(const Box& common, const Addresses& source, const Addresses& destination,
                std::vector<CopyRun>& runs) {
  // Dims from `outer` on are one run: packed without gaps in both storages.
  size_t outer = common.dims.size();
  int64_t numel = 1;
  while (outer > 0 && source.stride(outer - 1) == numel && destination.stride(outer - 1) == numel) {
    --outer;
    numel *= common.dims[outer].size();
  }
  std::vector<int64_t> index(outer, 0);
  CopyRun run{source.OffsetOf(common), destination.OffsetOf(common), numel};
  while (true) {
    runs.push_back(run);
    size_t dim = outer;
    while (dim > 0 && index[dim - 1] + 1 == common.dims[dim - 1].size()) {
      run.source_offset -= index[dim - 1] * source.stride(dim - 1);
      run.destination_offset -= index[dim - 1] * destination.stride(dim - 1);
      index[--dim] = 0;
    }
    if (dim == 0) return;
    ++index[dim - 1];
    run.source_offset += source.stride(dim - 1);
    run.destination_offset += destination.stride(dim - 1);
  }
}

// Joins neighbours that continue each other. @pre sorted by destination.
void Merge(std::vector<CopyRun>& runs) {
  size_t kept = 0;
  for (size_t i = 1; i < runs.size(); ++i) {
    CopyRun& last = runs[kept];
    if (last.destination_offset + last.numel == runs[i].destination_offset &&
        last.source_offset + last.numel == runs[i].source_offset) {
      last.numel += runs[i].numel;
    } else {
      runs[++kept] = runs[i];
    }
  }
  if (!runs.empty()) runs.resize(kept + 1);
}

}  // namespace

std::string CopyRun::ToString() const {
  return fmt::format("{}->{} x{}", source_offset, destination_offset, numel);
}

std::vector<CopyRun> Runs(const Shard& source, const Shard& destination) {
  const Addresses source_addresses(source);
  const Addresses destination_addresses(destination);
  std::vector<CopyRun> runs;
  for (const Box& common : Intersect(source, destination)) {
    AppendRuns(common, source_addresses, destination_addresses, runs);
  }
  std::sort(runs.begin(), runs.end(), [](const CopyRun& a, const CopyRun& b) {
    return a.destination_offset < b.destination_offset;
  });
  Merge(runs);
  return runs;
}

}  // namespace shoal::layout
