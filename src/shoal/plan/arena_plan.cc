#include "shoal/plan/arena_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/aligned.h"
#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/plan/unit_packer.h"

namespace shoal::plan {
namespace {

constexpr std::string_view kOperation = "plan_arena";

Status CheckOptions(const ArenaOptions& options) {
  if (options.zero_stage < 0 || options.zero_stage > 3) {
    return Status::InvalidArgument(
        kOperation, fmt::format("zero_stage is {}, must be 0, 1, 2 or 3", options.zero_stage));
  }
  if (options.prefetch_depth < 0) {
    return Status::InvalidArgument(
        kOperation, fmt::format("prefetch_depth is {}, must be >= 0", options.prefetch_depth));
  }
  if (options.grad_slots < 1) {
    return Status::InvalidArgument(
        kOperation, fmt::format("grad_slots is {}, must be >= 1", options.grad_slots));
  }
  return Status();
}

Status CheckUnit(const UnitMemory& unit) {
  if (unit.param_bytes >= 0 && unit.grad_bytes >= 0) return Status();
  return Status::InvalidArgument(
      kOperation, fmt::format("unit '{}' has param_bytes {} and grad_bytes {}, must be >= 0",
                              unit.name, unit.param_bytes, unit.grad_bytes));
}

// Puts one unit of `bytes` into its class and returns the class' index, -1 for 0 bytes.
int64_t Classify(int64_t bytes, std::vector<SizeClass>& classes) {
  if (bytes == 0) return -1;
  auto found = std::find_if(classes.begin(), classes.end(),
                            [bytes](const SizeClass& c) { return c.slot_bytes == bytes; });
  if (found == classes.end()) found = classes.insert(found, SizeClass{bytes, 0, 0});
  ++found->num_units;
  return std::distance(classes.begin(), found);
}

// Sets num_slots to at most `max_slots` per class and adds up the bytes; false on overflow.
bool GiveSlots(int64_t max_slots, std::vector<SizeClass>& classes, int64_t& total) {
  for (SizeClass& size_class : classes) {
    size_class.num_slots = std::min(size_class.num_units, max_slots);
    int64_t bytes = 0;
    if (__builtin_mul_overflow(size_class.num_slots, size_class.slot_bytes, &bytes) ||
        __builtin_add_overflow(total, bytes, &total)) {
      return false;
    }
  }
  return true;
}

void AppendRows(std::string_view kind, const std::vector<SizeClass>& classes, std::string& text) {
  for (const SizeClass& c : classes) {
    fmt::format_to(std::back_inserter(text), "{:<10} {:>6} {:>6} {:>16} {:>16}\n", kind,
                   c.num_units, c.num_slots, c.slot_bytes, c.num_slots * c.slot_bytes);
  }
}

}  // namespace

std::vector<int64_t> GradientOffsets(const UnitLayout& layout, DType reduce_dtype,
                                     int64_t alignment_bytes) {
  std::vector<int64_t> offsets;
  offsets.reserve(layout.segments.size());
  int64_t end = 0;
  for (const Segment& segment : layout.segments) {
    offsets.push_back(segment.trainable ? end : -1);
    if (segment.trainable)
      end += AlignUp(segment.numel * DTypeBytes(reduce_dtype), alignment_bytes);
  }
  return offsets;
}

int64_t GradientBytes(const UnitLayout& layout, DType reduce_dtype, int64_t alignment_bytes) {
  int64_t bytes = 0;
  for (const Segment& segment : layout.segments) {
    if (!segment.trainable) continue;
    bytes += AlignUp(segment.numel * DTypeBytes(reduce_dtype), alignment_bytes);
  }
  return bytes;
}

Result<ArenaPlan> PlanArena(std::span<const UnitMemory> units, const ArenaOptions& options) {
  SHOAL_RETURN_IF_ERROR(CheckOptions(options));
  ArenaPlan plan;
  plan.param_class_of_unit.reserve(units.size());
  plan.grad_class_of_unit.reserve(units.size());
  for (const UnitMemory& unit : units) {
    SHOAL_RETURN_IF_ERROR(CheckUnit(unit));
    const int64_t param_bytes = options.zero_stage == 3 ? unit.param_bytes : 0;
    plan.param_class_of_unit.push_back(Classify(param_bytes, plan.param_classes));
    plan.grad_class_of_unit.push_back(Classify(unit.grad_bytes, plan.grad_classes));
  }
  const auto num_units = static_cast<int64_t>(units.size());
  // Compared before adding: prefetch_depth may be as large as int64_t.
  const int64_t param_slots =
      options.prefetch_depth >= num_units ? num_units : options.prefetch_depth + 1;
  const int64_t grad_slots = options.keep_unreduced_gradients ? num_units : options.grad_slots;
  int64_t total = 0;
  if (!GiveSlots(param_slots, plan.param_classes, plan.param_bytes) ||
      !GiveSlots(grad_slots, plan.grad_classes, plan.grad_bytes) ||
      __builtin_add_overflow(plan.param_bytes, plan.grad_bytes, &total)) {
    return Status::InvalidArgument(kOperation, "the slots' bytes exceed int64");
  }
  return plan;
}

std::string ArenaPlan::ToString() const {
  std::string text = fmt::format("{:<10} {:>6} {:>6} {:>16} {:>16}\n", "arena", "units", "slots",
                                 "slot bytes", "bytes");
  AppendRows("params", param_classes, text);
  AppendRows("gradients", grad_classes, text);
  fmt::format_to(std::back_inserter(text), "{:<10} {:>6} {:>6} {:>16} {:>16}\n", "total", "", "",
                 "", total_bytes());
  return text;
}

}  // namespace shoal::plan
