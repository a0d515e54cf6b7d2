// ModelMemory: bytes that one rank needs for each kind of training state, before anything is
// allocated.
//
// The kinds, for elements padded as PackUnit pads them (N = num_ranks):
//   params     compute dtype; everything at stages 0-2, a piece (1/N) at stage 3
//   master     master dtype, trainable segments; everything at stage 0, a piece at stages 1-3; 0
//   for segments
//              that compute in the master dtype (the parameters are the masters)
//   state      num_states tensors of the state dtype beside each master, sharded like it
//   gradients  what lives between backward and step: a piece at stages 2-3 and everything at stages
//   0-1, in the
//              reduce dtype with one micro-step per step, else in the accumulate dtype
//   arena      as planned (arena_plan.h)
// `padding` says how many of the bytes above (arena excluded) hold no parameter's data; for pieces
// it is the average over the ranks, rounded down per segment.
//
// Thread-safety: pure functions and values.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/plan/arena_plan.h"
#include "shoal/plan/unit_packer.h"

namespace shoal::plan {

struct MemoryOptions {
  int zero_stage = 3;     // 0..3
  int64_t num_ranks = 1;  // as in PackOptions
  DType master_dtype = DType::kFloat32;
  DType reduce_dtype = DType::kBFloat16;
  DType accumulate_dtype = DType::kFloat32;
  DType state_dtype = DType::kFloat32;
  int64_t num_states = 2;          // per element: AdamW 2, SGD with momentum 1, plain SGD 0
  int64_t accumulation_steps = 1;  // micro-steps per step, >= 1
};

// All in bytes on one rank.
struct MemoryModel {
  int64_t params = 0;
  int64_t master = 0;
  int64_t state = 0;
  int64_t gradients = 0;
  int64_t arena = 0;
  int64_t padding = 0;  // contained in params, master, state, gradients

  // params + master + state: lives from construction to close.
  int64_t persistent() const { return params + master + state; }
  int64_t total() const { return persistent() + gradients + arena; }

  // A table of the kinds with bytes, then the total.
  std::string ToString() const;

  friend bool operator==(const MemoryModel&, const MemoryModel&) = default;
};

// InvalidArgument for options out of range or layouts that were packed for another number of ranks.
Result<MemoryModel> ModelMemory(std::span<const UnitLayout> units, const ArenaPlan& arena,
                                const MemoryOptions& options);

}  // namespace shoal::plan
