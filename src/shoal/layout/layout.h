// Layout: which rank stores which shards of every tensor.
//
// Replication is several ranks with the same elements: `replicas` says how many hold each. A rank
// stores the shards of one tensor one after the other, in the order given.
//
// Text form, one line per tensor: "w[4,8]:float32 0:[0:2,0:8] 1:[2:4,0:8]" (rank:shards, shards
// joined by "+",
// "-" for none), with " x2" after the tensor where each element has 2 replicas.
//
// Thread-safety: an immutable value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/layout/shard.h"
#include "shoal/layout/tensor_spec.h"

namespace shoal::layout {

struct TensorLayout {
  TensorSpec spec;
  int64_t replicas = 1;                    // ranks that hold each element
  std::vector<std::vector<Shard>> shards;  // for each of the layout's ranks

  friend bool operator==(const TensorLayout&, const TensorLayout&) = default;
};

class Layout {
 public:
  // InvalidArgument, naming tensor and rank: ranks or tensor names repeated, a shape that is
  // negative or has more than int64_t elements, replicas outside 1..ranks, shards for another
  // number of ranks, a shard outside its tensor, two shards of one rank that overlap. Whether every
  // element is held is for Covers (covers.h).
  static Result<Layout> Make(std::vector<int64_t> ranks, std::vector<TensorLayout> tensors);

  const std::vector<int64_t>& ranks() const { return ranks_; }
  const std::vector<TensorLayout>& tensors() const { return tensors_; }

  // Null if there is no such tensor. The pointer lives as long as the layout.
  const TensorLayout* Find(std::string_view name) const;

  // Position of `rank` in ranks(), -1 if it is not there.
  int64_t IndexOf(int64_t rank) const;

  // See the text form above.
  std::string ToString() const;

  // Written in the same way; see Equivalent (equivalent.h) for "stores the same".
  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  Layout(std::vector<int64_t> ranks, std::vector<TensorLayout> tensors);

  std::vector<int64_t> ranks_;
  std::vector<TensorLayout> tensors_;
};

}  // namespace shoal::layout
