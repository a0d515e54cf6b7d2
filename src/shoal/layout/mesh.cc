#include "shoal/layout/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/base/status.h"

namespace shoal::layout {
namespace {

constexpr std::string_view kOperation = "mesh";
constexpr std::array<std::string_view, 7> kAxisNames = {
    "pp", "dp", "dp_replicate", "dp_shard", "ep", "sp", "tp"};

Status Invalid(std::string_view message) { return Status::InvalidArgument(kOperation, message); }

// "pp=1,dp=?,ep=1,sp=1,tp=2": everything that was asked for, for messages.
std::string Describe(const MeshSpec& spec) {
  std::string dp = "?";
  if (spec.dp.size() == 1) dp = fmt::format("{}", spec.dp[0]);
  if (spec.dp.size() > 1) dp = fmt::format("({})", fmt::join(spec.dp, ","));
  return fmt::format("pp={},dp={},ep={},sp={},tp={}", spec.pp, dp, spec.ep, spec.sp, spec.tp);
}

Status CheckSizes(const MeshSpec& spec) {
  if (spec.dp.size() > 2) {
    return Invalid(fmt::format("axis \"dp\" has {} levels, must be a size or (replicate, shard)",
                               spec.dp.size()));
  }
  std::vector<AxisValue> sizes = {
      {"pp", spec.pp}, {"ep", spec.ep}, {"sp", spec.sp}, {"tp", spec.tp}};
  for (const int64_t size : spec.dp) sizes.push_back({"dp", size});
  for (const auto& [axis, size] : sizes) {
    if (size < 1) return Invalid(fmt::format("axis \"{}\" has size {}, must be >= 1", axis, size));
  }
  return Status();
}

Status CheckSupported(const MeshSpec& spec) {
  for (const auto& [axis, size] :
       {AxisValue{"pp", spec.pp}, AxisValue{"ep", spec.ep}, AxisValue{"sp", spec.sp}}) {
    if (size > 1) {
      return Status::Unsupported(
          kOperation, fmt::format("axis \"{}\" has size {}; sizes above 1 are not implemented yet",
                                  axis, size));
    }
  }
  return Status();
}

Result<std::vector<int64_t>> ResolveRanks(const MeshSpec& spec, int64_t world_size) {
  if (world_size < 1 || world_size > kMaxWorldSize) {
    return Invalid(fmt::format("world size is {}, must be in 1..{}", world_size, kMaxWorldSize));
  }
  if (!spec.ranks) {
    std::vector<int64_t> ranks(static_cast<size_t>(world_size));
    std::iota(ranks.begin(), ranks.end(), int64_t{0});
    return ranks;
  }
  std::vector<bool> seen(static_cast<size_t>(world_size), false);
  for (const int64_t rank : *spec.ranks) {
    if (rank < 0 || rank >= world_size) {
      return Invalid(fmt::format("ranks has {}, must be in 0..{} (world size {})", rank,
                                 world_size - 1, world_size));
    }
    if (seen[static_cast<size_t>(rank)]) {
      return Invalid(fmt::format("ranks has {} twice, must be distinct", rank));
    }
    seen[static_cast<size_t>(rank)] = true;
  }
  if (spec.ranks->empty()) return Invalid("ranks is empty, must hold at least one rank");
  return *spec.ranks;
}

// a * b, or a number larger than any count of ranks.
int64_t CappedProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// The levels of dp for `num_ranks` ranks. @pre the sizes are >= 1.
Result<std::vector<int64_t>> ResolveDp(const MeshSpec& spec, int64_t num_ranks) {
  const std::string wanted = spec.ranks ? fmt::format("the number of ranks given, {}", num_ranks)
                                        : fmt::format("the world size {}", num_ranks);
  const int64_t others = CappedProduct(CappedProduct(spec.pp, spec.sp), spec.tp);
  if (spec.dp.empty()) {
    if (num_ranks % others == 0) return std::vector<int64_t>{num_ranks / others};
    return Invalid(fmt::format("pp*sp*tp is {}, does not divide {} (mesh {})", others, wanted,
                               Describe(spec)));
  }
  int64_t size = others;
  for (const int64_t level : spec.dp) size = CappedProduct(size, level);
  if (size == num_ranks) return spec.dp;
  return Invalid(
      fmt::format("the axes multiply to {}, not to {} (mesh {})", size, wanted, Describe(spec)));
}

}  // namespace

Mesh::Mesh(std::vector<AxisValue> axes, std::vector<int64_t> ranks, bool is_hybrid)
    : axes_(std::move(axes)), ranks_(std::move(ranks)), is_hybrid_(is_hybrid) {}

Result<Mesh> Mesh::Make(const MeshSpec& spec, int64_t world_size) {
  SHOAL_RETURN_IF_ERROR(CheckSizes(spec));
  SHOAL_ASSIGN_OR_RETURN(std::vector<int64_t> ranks, ResolveRanks(spec, world_size));
  SHOAL_ASSIGN_OR_RETURN(const std::vector<int64_t> dp,
                         ResolveDp(spec, static_cast<int64_t>(ranks.size())));
  const int64_t dp_size =
      std::accumulate(dp.begin(), dp.end(), int64_t{1}, [](int64_t a, int64_t b) { return a * b; });
  if (dp_size % spec.ep != 0) {
    return Invalid(fmt::format("axis \"ep\" has size {}, does not divide dp, which has size {}",
                               spec.ep, dp_size));
  }
  SHOAL_RETURN_IF_ERROR(CheckSupported(spec));
  const bool is_hybrid = dp.size() == 2;
  std::vector<AxisValue> axes = {{"pp", spec.pp}};
  if (is_hybrid) {
    axes.push_back({"dp_replicate", dp[0]});
    axes.push_back({"dp_shard", dp[1]});
  } else {
    axes.push_back({"dp", dp[0]});
  }
  axes.push_back({"sp", spec.sp});
  axes.push_back({"tp", spec.tp});
  return Mesh(std::move(axes), std::move(ranks), is_hybrid);
}

bool Mesh::Contains(int64_t rank) const {
  return std::find(ranks_.begin(), ranks_.end(), rank) != ranks_.end();
}

Result<Mesh::Stride> Mesh::StrideOf(std::string_view axis) const {
  if (std::find(kAxisNames.begin(), kAxisNames.end(), axis) == kAxisNames.end()) {
    return Invalid(fmt::format("unknown axis \"{}\", must be one of {} (mesh {})", axis,
                               fmt::join(kAxisNames, ", "), ToString()));
  }
  Stride stride{1, 1};
  int64_t step = 1;
  for (auto level = axes_.rbegin(); level != axes_.rend(); ++level) {
    const bool is_dp_shard_of_one_level = axis == "dp_shard" && level->axis == "dp";
    const bool is_level_of_dp = axis == "dp" && level->axis.starts_with("dp");
    if (level->axis == axis || is_dp_shard_of_one_level || is_level_of_dp) {
      if (stride.size == 1) stride.step = step;
      stride.size *= level->value;  // the two levels of dp are neighbours, so they act as one axis
    }
    step *= level->value;
  }
  return stride;
}

Result<int64_t> Mesh::AxisSize(std::string_view axis) const {
  SHOAL_ASSIGN_OR_RETURN(const Stride stride, StrideOf(axis));
  return stride.size;
}

Result<std::vector<std::vector<int64_t>>> Mesh::Slice(std::string_view axis) const {
  SHOAL_ASSIGN_OR_RETURN(const Stride stride, StrideOf(axis));
  std::vector<std::vector<int64_t>> groups;
  groups.reserve(static_cast<size_t>(size() / stride.size));
  for (int64_t first = 0; first < size(); ++first) {
    if (first / stride.step % stride.size != 0) continue;
    std::vector<int64_t>& group = groups.emplace_back();
    for (int64_t i = 0; i < stride.size; ++i) {
      group.push_back(ranks_[static_cast<size_t>(first + i * stride.step)]);
    }
  }
  return groups;
}

Result<std::vector<int64_t>> Mesh::GroupOf(std::string_view axis, int64_t rank) const {
  SHOAL_ASSIGN_OR_RETURN(std::vector<std::vector<int64_t>> groups, Slice(axis));
  for (std::vector<int64_t>& group : groups) {
    if (std::find(group.begin(), group.end(), rank) != group.end()) return std::move(group);
  }
  return Invalid(fmt::format("rank {} is not in the mesh {}", rank, ToString()));
}

Result<std::vector<AxisValue>> Mesh::CoordinatesOf(int64_t rank) const {
  const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
  if (found == ranks_.end()) {
    return Invalid(fmt::format("rank {} is not in the mesh {}", rank, ToString()));
  }
  int64_t rest = std::distance(ranks_.begin(), found);
  std::vector<AxisValue> coordinates = axes_;
  for (size_t i = axes_.size(); i-- > 0;) {
    coordinates[i].value = rest % axes_[i].value;
    rest /= axes_[i].value;
  }
  return coordinates;
}

std::string Mesh::ToString() const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].axis == "dp_replicate") {
      parts.push_back(fmt::format("dp=({},{})", axes_[i].value, axes_[i + 1].value));
    } else if (axes_[i].axis != "dp_shard" && axes_[i].value > 1) {
      parts.push_back(fmt::format("{}={}", axes_[i].axis, axes_[i].value));
    }
  }
  if (parts.empty()) parts.emplace_back("dp=1");
  std::string text = fmt::format("{}", fmt::join(parts, ","));
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i] == static_cast<int64_t>(i)) continue;
    return fmt::format("{}@[{}]", text, fmt::join(ranks_, ","));
  }
  return text;
}

}  // namespace shoal::layout
