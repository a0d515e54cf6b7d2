#include "shoal/plan/memory_model.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/plan/arena_plan.h"
#include "shoal/plan/unit_packer.h"

namespace shoal::plan {
namespace {

constexpr std::string_view kOperation = "memory_model";

Status CheckAtLeast(std::string_view name, int64_t value, int64_t lowest) {
  if (value >= lowest) return Status();
  return Status::InvalidArgument(kOperation,
                                 fmt::format("{} is {}, must be >= {}", name, value, lowest));
}

Status CheckOptions(const MemoryOptions& options) {
  if (options.zero_stage < 0 || options.zero_stage > 3) {
    return Status::InvalidArgument(
        kOperation, fmt::format("zero_stage is {}, must be 0, 1, 2 or 3", options.zero_stage));
  }
  SHOAL_RETURN_IF_ERROR(CheckAtLeast("num_ranks", options.num_ranks, 1));
  SHOAL_RETURN_IF_ERROR(CheckAtLeast("num_states", options.num_states, 0));
  return CheckAtLeast("accumulation_steps", options.accumulation_steps, 1);
}

// Bytes of `copies` tensors of a dtype over the segment, whole or one rank's piece; adds up their
// padding.
class SegmentCost {
 public:
  SegmentCost(const Segment& segment, int64_t num_ranks, int64_t& padding)
      : segment_(segment), num_ranks_(num_ranks), padding_(padding) {}

  int64_t Bytes(DType dtype, bool sharded, int64_t copies = 1) const {
    const int64_t numel = sharded ? segment_.piece_numel : segment_.numel;
    const int64_t unused = (segment_.numel - segment_.used_numel) / (sharded ? num_ranks_ : 1);
    padding_ += unused * copies * DTypeBytes(dtype);
    return numel * copies * DTypeBytes(dtype);
  }

 private:
  const Segment& segment_;
  const int64_t num_ranks_;
  int64_t& padding_;
};

void AddSegment(const Segment& segment, const MemoryOptions& options, MemoryModel& model) {
  const SegmentCost cost(segment, options.num_ranks, model.padding);
  model.params += cost.Bytes(segment.dtype, options.zero_stage == 3);
  if (!segment.trainable) return;
  if (segment.dtype != options.master_dtype) {
    model.master += cost.Bytes(options.master_dtype, options.zero_stage >= 1);
  }
  model.state += cost.Bytes(options.state_dtype, options.zero_stage >= 1, options.num_states);
  model.gradients +=
      cost.Bytes(options.accumulation_steps == 1 ? options.reduce_dtype : options.accumulate_dtype,
                 options.zero_stage >= 2);
}

}  // namespace

Result<MemoryModel> ModelMemory(std::span<const UnitLayout> units, const ArenaPlan& arena,
                                const MemoryOptions& options) {
  SHOAL_RETURN_IF_ERROR(CheckOptions(options));
  MemoryModel model;
  model.arena = arena.total_bytes();
  for (const UnitLayout& unit : units) {
    for (const Segment& segment : unit.segments) {
      if (segment.piece_numel * options.num_ranks != segment.numel) {
        return Status::InvalidArgument(
            kOperation,
            fmt::format("a segment of {} elements in pieces of {} was not packed for num_ranks={}",
                        segment.numel, segment.piece_numel, options.num_ranks));
      }
      AddSegment(segment, options, model);
    }
  }
  return model;
}

std::string MemoryModel::ToString() const {
  std::string text = fmt::format("{:<12} {:>16}\n", "memory", "bytes");
  const std::pair<std::string_view, int64_t> rows[] = {
      {"params", params}, {"master", master}, {"state", state},       {"gradients", gradients},
      {"arena", arena},   {"total", total()}, {"(padding)", padding},
  };
  for (const auto& [kind, bytes] : rows) {
    fmt::format_to(std::back_inserter(text), "{:<12} {:>16}\n", kind, bytes);
  }
  return text;
}

}  // namespace shoal::plan
