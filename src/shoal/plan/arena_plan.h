// PlanArena: how many buffers of which size an engine allocates once, at construction, for gathered
// parameters and for gradients on their way to the reduce-scatter.
//
// Units of equal size share a *size class*; a class has a number of *slots* (buffers) that its
// units take turns in. What the plan says is what the engine allocates and prints: no more.
//
// Thread-safety: pure functions and values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/plan/unit_packer.h"

namespace shoal::plan {

// What one unit asks of the arena.
struct UnitMemory {
  std::string name;         // for messages
  int64_t param_bytes = 0;  // gathered parameters: UnitLayout::total_bytes
  int64_t grad_bytes =
      0;  // unreduced gradients in the reduce dtype: GradientBytes(); 0 for a frozen unit
};

// Bytes of a unit's unreduced gradients: the sum over its trainable segments of numel *
// bytes(reduce_dtype), each segment rounded up to `alignment_bytes` so that it starts aligned.
int64_t GradientBytes(const UnitLayout& layout, DType reduce_dtype, int64_t alignment_bytes = 256);

// Offset of each segment's gradients in the unit's gradient slot, in the order of layout.segments;
// -1 for a segment that is not trainable. Agrees with GradientBytes.
std::vector<int64_t> GradientOffsets(const UnitLayout& layout, DType reduce_dtype,
                                     int64_t alignment_bytes = 256);

struct ArenaOptions {
  int zero_stage = 3;          // 0..3; parameters need slots at stage 3 only
  int64_t prefetch_depth = 1;  // units gathered ahead of the one that computes, >= 0
  int64_t grad_slots = 2;  // slots per class of gradients: one fills while others are reduced, >= 1
  // One gradient slot per unit instead: full gradients live from micro-step to micro-step (stages 0
  // and 1 that accumulate, and accumulate="unreduced").
  bool keep_unreduced_gradients = false;
};

struct SizeClass {
  int64_t slot_bytes = 0;
  int64_t num_slots = 0;
  int64_t num_units = 0;  // units that share the slots

  friend bool operator==(const SizeClass&, const SizeClass&) = default;
};

struct ArenaPlan {
  std::vector<SizeClass> param_classes;      // in the order of their first unit
  std::vector<SizeClass> grad_classes;       // in the order of their first unit
  std::vector<int64_t> param_class_of_unit;  // index into param_classes; -1: needs no slot
  std::vector<int64_t> grad_class_of_unit;   // index into grad_classes; -1: needs no slot
  int64_t param_bytes = 0;                   // sum over param_classes of slots * bytes
  int64_t grad_bytes = 0;                    // sum over grad_classes of slots * bytes

  int64_t total_bytes() const { return param_bytes + grad_bytes; }

  // A table: one line per class (kind, units, slots, bytes per slot, bytes), then the total.
  std::string ToString() const;

  friend bool operator==(const ArenaPlan&, const ArenaPlan&) = default;
};

// Stage 3: min(units of the class, 1 + prefetch_depth) parameter slots per class of equal
// param_bytes; stages 0-2: none. Every stage: min(units of the class, grad_slots) gradient slots
// per class of equal grad_bytes, or one per unit with keep_unreduced_gradients. Units of 0 bytes
// get no slot. InvalidArgument for options out of range, negative bytes (the unit is named) or a
// sum beyond int64_t.
Result<ArenaPlan> PlanArena(std::span<const UnitMemory> units, const ArenaOptions& options);

}  // namespace shoal::plan
