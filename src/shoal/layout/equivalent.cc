#include "shoal/layout/equivalent.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "shoal/layout/layout.h"
#include "shoal/layout/runs.h"
#include "shoal/layout/shard.h"

namespace shoal::layout {
namespace {

int64_t NumelOf(std::span<const Shard> shards) {
  int64_t numel = 0;
  for (const Shard& shard : shards) numel += shard.numel();
  return numel;
}

// How many elements of both lists lie at the same storage offset in both; -1 if one lies elsewhere.
int64_t CountInPlace(std::span<const Shard> a, std::span<const Shard> b) {
  int64_t count = 0;
  int64_t start_a = 0;
  for (const Shard& shard_a : a) {
    int64_t start_b = 0;
    for (const Shard& shard_b : b) {
      for (const CopyRun& run : Runs(shard_a, shard_b)) {
        if (start_a + run.source_offset != start_b + run.destination_offset) return -1;
        count += run.numel;
      }
      start_b += shard_b.numel();
    }
    start_a += shard_a.numel();
  }
  return count;
}

}  // namespace

bool Equivalent(std::span<const Shard> a, std::span<const Shard> b) {
  const int64_t numel = NumelOf(a);
  return numel == NumelOf(b) && CountInPlace(a, b) == numel;
}

bool Equivalent(const Layout& a, const Layout& b) {
  if (a.ranks().size() != b.ranks().size() || a.tensors().size() != b.tensors().size()) {
    return false;
  }
  for (const int64_t rank : a.ranks()) {
    if (b.IndexOf(rank) < 0) return false;
  }
  for (const TensorLayout& tensor_a : a.tensors()) {
    const TensorLayout* const tensor_b = b.Find(tensor_a.spec.name);
    if (tensor_b == nullptr || tensor_b->spec != tensor_a.spec ||
        tensor_b->replicas != tensor_a.replicas) {
      return false;
    }
    for (size_t i = 0; i < a.ranks().size(); ++i) {
      const int64_t j = b.IndexOf(a.ranks()[i]);
      if (!Equivalent(tensor_a.shards[i], tensor_b->shards[static_cast<size_t>(j)])) return false;
    }
  }
  return true;
}

}  // namespace shoal::layout
