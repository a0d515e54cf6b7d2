// Mesh: which rank sits where. An ordered list of named axes over an explicit list of ranks.
//
// Axes, outermost first: pp (pipeline), dp (data; optionally two levels, dp_replicate over
// dp_shard), sp (sequence), tp (tensor; neighbours in the rank list). ep (expert) is no factor of
// the size: it divides dp. A Mesh is an immutable value: no process group, no device, no I/O.
// Engines own what they build on it.
//
// Text form: the axes larger than 1, "dp=4,tp=2", a two-level dp as "dp=(2,4)", one rank alone as
// "dp=1"; ranks other than 0..n-1 follow: "dp=2@[4,6]".
//
// Thread-safety: const access from several threads is safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/status.h"

namespace shoal::layout {

// More ranks than this are taken for a mistake.
inline constexpr int64_t kMaxWorldSize = int64_t{1} << 20;

// What a user asks for. Sizes are counts of ranks, >= 1.
struct MeshSpec {
  int64_t pp = 1;
  // Empty: what the other axes leave of the ranks. One value: the size of dp. Two: {replicate,
  // shard}.
  std::vector<int64_t> dp;
  int64_t ep = 1;
  int64_t sp = 1;
  int64_t tp = 1;
  // The ranks of the mesh in mesh order (last axis fastest). Absent: 0..world_size-1.
  std::optional<std::vector<int64_t>> ranks;

  friend bool operator==(const MeshSpec&, const MeshSpec&) = default;
};

// One axis with its size; as a coordinate, one axis with a rank's index along it.
struct AxisValue {
  std::string_view axis;  // a literal
  int64_t value = 0;

  friend bool operator==(const AxisValue&, const AxisValue&) = default;
};

class Mesh {
 public:
  // Checks and fills in `spec` for a job of `world_size` ranks.
  // InvalidArgument: sizes that do not multiply to the number of ranks, a size < 1, dp with more
  // than two levels, an ep that does not divide dp, a rank repeated or outside 0..world_size-1,
  // world_size < 1. Unsupported: pp, ep or sp above 1 (not implemented yet). Messages name axis and
  // value.
  static Result<Mesh> Make(const MeshSpec& spec, int64_t world_size);

  // The axes that multiply to size(), outermost first, size-1 axes included: pp, dp (or
  // dp_replicate, dp_shard), sp, tp.
  std::span<const AxisValue> axes() const { return axes_; }

  // Ranks in mesh order: the last axis varies fastest.
  const std::vector<int64_t>& ranks() const { return ranks_; }
  int64_t size() const { return static_cast<int64_t>(ranks_.size()); }
  bool Contains(int64_t rank) const;

  // True when dp was given as {replicate, shard}.
  bool is_hybrid() const { return is_hybrid_; }

  // Size of "pp", "dp", "dp_replicate", "dp_shard", "ep", "sp" or "tp". "dp" is the product of its
  // levels; a one-level dp is all dp_shard (dp_replicate is 1). InvalidArgument for any other name.
  Result<int64_t> AxisSize(std::string_view axis) const;

  // The groups of ranks along `axis` (a name as in AxisSize): each group varies along the axis with
  // everything else fixed. Groups, and the ranks in each, are in mesh order; together they hold
  // every rank once.
  Result<std::vector<std::vector<int64_t>>> Slice(std::string_view axis) const;

  // The group of Slice(axis) that holds `rank`. InvalidArgument if the mesh does not hold it.
  Result<std::vector<int64_t>> GroupOf(std::string_view axis, int64_t rank) const;

  // The index of `rank` along each of axes(), in their order. InvalidArgument if the mesh does not
  // hold it.
  Result<std::vector<AxisValue>> CoordinatesOf(int64_t rank) const;

  // See the text form above.
  std::string ToString() const;

  // Same axes, same ranks in the same order. {1, 4} and 4 are different meshes with the same
  // groups.
  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  Mesh(std::vector<AxisValue> axes, std::vector<int64_t> ranks, bool is_hybrid);

  // Distance in mesh order of neighbours along `axis`, and its size. "ep" and absent levels have
  // size 1.
  struct Stride {
    int64_t size;
    int64_t step;
  };
  Result<Stride> StrideOf(std::string_view axis) const;

  std::vector<AxisValue> axes_;
  std::vector<int64_t> ranks_;
  bool is_hybrid_ = false;
};

}  // namespace shoal::layout
