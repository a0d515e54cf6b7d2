#include "shoal/plan/unit_packer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/base/aligned.h"
#include "shoal/base/dtype.h"
#include "shoal/base/status.h"

namespace shoal::plan {
namespace {

constexpr std::string_view kOperation = "pack_unit";

// Units stay below this, so that rounding up, and a wider dtype for the same elements, fit int64_t.
constexpr int64_t kMaxBytes = std::numeric_limits<int64_t>::max() / 64;

// Parameters of one segment by index, in packing order, and the segment's size.
struct Group {
  DType dtype;
  bool trainable;
  std::vector<size_t> members;
};

Status CheckOptions(const PackOptions& options) {
  if (options.num_ranks < 1) {
    return Status::InvalidArgument(kOperation,
                                   fmt::format("num_ranks is {}, must be >= 1", options.num_ranks));
  }
  if (!IsPowerOfTwo(options.slice_alignment_bytes) ||
      options.slice_alignment_bytes < kPieceAlignmentBytes) {
    return Status::InvalidArgument(
        kOperation, fmt::format("slice_alignment_bytes is {}, must be a power of two >= {}",
                                options.slice_alignment_bytes, kPieceAlignmentBytes));
  }
  if (options.block_elements < 1) {
    return Status::InvalidArgument(
        kOperation, fmt::format("block_elements is {}, must be >= 1", options.block_elements));
  }
  return Status();
}

// Also bounds the sum of all bytes with every alignment gap.
Status CheckParams(std::span<const ParamSpec> params, const PackOptions& options) {
  int64_t room = kMaxBytes;
  for (const ParamSpec& param : params) {
    if (param.numel < 0) {
      return Status::InvalidArgument(
          kOperation,
          fmt::format("parameter '{}' has numel {}, must be >= 0", param.name, param.numel));
    }
    const int64_t gap = options.slice_alignment_bytes;
    if (room < gap || param.numel > (room - gap) / DTypeBytes(param.dtype)) {
      return Status::InvalidArgument(
          kOperation, fmt::format("the unit exceeds {} bytes at parameter '{}' of {} elements",
                                  kMaxBytes, param.name, param.numel));
    }
    room -= param.numel * DTypeBytes(param.dtype) + gap;
  }
  return Status();
}

std::vector<Group> GroupParams(std::span<const ParamSpec> params) {
  std::vector<Group> groups;
  for (size_t i = 0; i < params.size(); ++i) {
    const ParamSpec& param = params[i];
    auto group = std::find_if(groups.begin(), groups.end(), [&param](const Group& g) {
      return g.dtype == param.dtype && g.trainable == param.trainable;
    });
    if (group == groups.end()) {
      group = groups.insert(group, Group{param.dtype, param.trainable, {}});
    }
    group->members.push_back(i);
  }
  return groups;
}

// The elements of which a rank's piece must hold a multiple; nullopt where that overflows.
std::optional<int64_t> PieceQuantum(DType dtype, const PackOptions& options) {
  const int64_t line = std::max<int64_t>(1, kPieceAlignmentBytes / DTypeBytes(dtype));
  const int64_t step = options.block_elements / std::gcd(line, options.block_elements);
  int64_t quantum = 0;
  int64_t of_all_ranks = 0;
  if (__builtin_mul_overflow(line, step, &quantum) ||
      __builtin_mul_overflow(quantum, options.num_ranks, &of_all_ranks) ||
      of_all_ranks > kMaxBytes / DTypeBytes(dtype)) {
    return std::nullopt;
  }
  return quantum;
}

// Packs one group behind another. Element counts; `alignment` is the slice alignment in elements.
class SegmentPacker {
 public:
  SegmentPacker(std::span<const ParamSpec> params, int64_t alignment, int64_t quantum_of_all_ranks)
      : params_(params), alignment_(alignment), quantum_(quantum_of_all_ranks) {}

  // Moves one member to the end where that makes the segment smaller.
  void ChooseLast(std::vector<size_t>& members) const {
    int64_t aligned = 0;
    std::optional<size_t> given_last;
    for (size_t i = 0; i < members.size(); ++i) {
      aligned += AlignUp(Numel(members[i]), alignment_);
      if (Numel(members[i]) > 0) given_last = i;
    }
    if (!given_last) return;
    size_t best = *given_last;
    for (size_t i = *given_last; i-- > 0;) {
      if (PaddedWithLast(aligned, members[i]) < PaddedWithLast(aligned, members[best])) best = i;
    }
    if (best == *given_last) return;
    std::rotate(members.begin() + static_cast<std::ptrdiff_t>(best),
                members.begin() + static_cast<std::ptrdiff_t>(best) + 1, members.end());
  }

  // Writes offset_elements of the members' slices and returns the padded size.
  int64_t Place(const std::vector<size_t>& members, std::vector<Slice>& slices) const {
    int64_t end = 0;
    for (const size_t index : members) {
      if (Numel(index) == 0) continue;  // an empty slice stays at the segment's start
      slices[index].offset_elements = AlignUp(end, alignment_);
      end = slices[index].offset_elements + Numel(index);
    }
    return AlignUp(end, quantum_);
  }

 private:
  int64_t Numel(size_t index) const { return params_[index].numel; }

  // Size of the segment if `index` came last; `aligned` is the sum of all aligned sizes.
  int64_t PaddedWithLast(int64_t aligned, size_t index) const {
    const int64_t gap = AlignUp(Numel(index), alignment_) - Numel(index);
    return AlignUp(aligned - gap, quantum_);
  }

  std::span<const ParamSpec> params_;
  int64_t alignment_;
  int64_t quantum_;
};

Status CheckPadding(const UnitLayout& layout, const PackOptions& options) {
  const auto num_slices = static_cast<int64_t>(layout.slices.size());
  const auto num_segments = static_cast<int64_t>(layout.segments.size());
  const int64_t forced = options.slice_alignment_bytes * (num_slices + num_segments) +
                         kPieceAlignmentBytes * options.num_ranks * num_segments;
  if (layout.padding_bytes <= layout.total_bytes / 20 || layout.padding_bytes <= forced) {
    return Status();
  }
  const double percent =
      100.0 * static_cast<double>(layout.padding_bytes) / static_cast<double>(layout.total_bytes);
  return Status::InvalidArgument(
      kOperation,
      fmt::format("padding is {} of {} bytes ({:.1f} %), above 5 % and above the {} bytes that "
                  "alignment can force ({} parameters, num_ranks={}, block_elements={}): put more "
                  "parameters into the unit or use smaller blocks",
                  layout.padding_bytes, layout.total_bytes, percent, forced, num_slices,
                  options.num_ranks, options.block_elements));
}

// Appends the segment of `group` at the layout's end.
Status AppendSegment(std::span<const ParamSpec> params, const PackOptions& options, Group group,
                     UnitLayout& layout) {
  const int64_t element_bytes = DTypeBytes(group.dtype);
  const std::optional<int64_t> quantum = PieceQuantum(group.dtype, options);
  if (!quantum) {
    return Status::InvalidArgument(
        kOperation, fmt::format("block_elements {} x num_ranks {} exceeds {} bytes",
                                options.block_elements, options.num_ranks, kMaxBytes));
  }
  const SegmentPacker packer(params, options.slice_alignment_bytes / element_bytes,
                             *quantum * options.num_ranks);
  packer.ChooseLast(group.members);

  Segment segment;
  segment.dtype = group.dtype;
  segment.trainable = group.trainable;
  segment.offset_bytes = layout.total_bytes;
  segment.numel = packer.Place(group.members, layout.slices);
  segment.piece_numel = segment.numel / options.num_ranks;
  for (const size_t index : group.members) {
    Slice& slice = layout.slices[index];
    slice.segment = static_cast<int64_t>(layout.segments.size());
    slice.numel = params[index].numel;
    slice.offset_bytes = segment.offset_bytes + slice.offset_elements * element_bytes;
    segment.used_numel += slice.numel;
  }
  if (segment.numel > (kMaxBytes - layout.total_bytes) / element_bytes) {
    return Status::InvalidArgument(kOperation, fmt::format("the unit exceeds {} bytes", kMaxBytes));
  }
  const int64_t bytes = AlignUp(segment.numel * element_bytes, options.slice_alignment_bytes);
  layout.total_bytes += bytes;
  layout.padding_bytes += bytes - segment.used_numel * element_bytes;
  layout.segments.push_back(segment);
  return Status();
}

}  // namespace

Result<UnitLayout> PackUnit(std::span<const ParamSpec> params, const PackOptions& options) {
  SHOAL_RETURN_IF_ERROR(CheckOptions(options));
  SHOAL_RETURN_IF_ERROR(CheckParams(params, options));
  UnitLayout layout;
  layout.slices.resize(params.size());
  for (Group& group : GroupParams(params)) {
    SHOAL_RETURN_IF_ERROR(AppendSegment(params, options, std::move(group), layout));
  }
  SHOAL_RETURN_IF_ERROR(CheckPadding(layout, options));
  return layout;
}

}  // namespace shoal::plan
