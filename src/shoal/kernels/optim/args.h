// What the kernels of `optim` take by value: the POD structs that this room and device/optim.cc
// share. All pointers are device pointers, aligned to their element's size.
//
// Segments travel in the launch's parameters (at most 4 KiB), so a launch needs no table in device
// memory, no copy, and can be captured into a graph.
#pragma once

#include "shoal/kernels/base/types.h"

namespace shoal::optim_kernels {

// Threads of a block, of every kernel here.
inline constexpr int kThreads = 256;
// Elements that one block handles. Fixed, so that sums do not depend on the device.
inline constexpr int kStepChunk = 4096;
inline constexpr int kCopyChunk = 8192;
inline constexpr int kNormChunk = 16384;

inline constexpr int kMaxStepSegments = 64;
inline constexpr int kMaxNormSegments = 160;
inline constexpr int kMaxCopySegments = 120;

// What the device decides about a step. Written by Control, read by Step.
struct Control {
  float grad_scale;  // multiplies every gradient: unscale, mean and clip in one
  uint32_t skip;     // 1: not-finite gradients; Step then writes nothing
  double norm;       // of the unscaled gradients, before clipping
};

struct StepSegment {
  const void* grad;
  float* master;
  float* state0;
  float* state1;
  void* compute;  // null: no copy
  int64_t numel;
};

// Scalars of one update, computed in float64 and rounded once.
struct StepScalars {
  float keep;             // AdamW, Lion: 1 - lr * weight_decay
  float weight_decay;     // Adam, SGD: added to the gradient; else 0
  float beta1;            // SGD: momentum
  float one_minus_beta1;  // SGD: 1 - dampening
  float beta2;
  float one_minus_beta2;
  float sqrt_correction2;  // sqrt(1 - beta2^t)
  float eps;
  float minus_step;  // Adam: -lr / (1 - beta1^t); others: -lr
  uint32_t decay;    // bit 0: multiply by `keep`; bit 1: add weight_decay to the gradient
  uint32_t nesterov;
  uint32_t first;  // SGD: update number 1
};

struct StepArgs {
  const Control* control;  // null: scale 1, never skipped
  StepScalars scalars;
  int32_t num_segments;
  int32_t first_chunk[kMaxStepSegments];  // the block at which a segment begins
  StepSegment segments[kMaxStepSegments];
};

struct NormSegment {
  const void* data;
  int64_t numel;
};

struct NormArgs {
  double* partials;  // one per block, at its index
  int32_t num_segments;
  int32_t first_chunk[kMaxNormSegments];
  NormSegment segments[kMaxNormSegments];
};

struct FinishArgs {
  const double* partials;
  int64_t num_partials;
  double* sum;  // the sum of squares; infinite or not-a-number when the data is
};

struct ControlArgs {
  const double* sum;        // of squares of the scaled gradients, all ranks together
  const float* loss_scale;  // null: 1
  Control* control;
  double divisor;   // gradients are divided by it besides the loss scale (ranks * micro-steps)
  double max_norm;  // <= 0: no clipping
};

struct CopySegment {
  const void* from;
  void* to;
  int64_t numel;
};

struct CopyArgs {
  int32_t num_segments;
  float scale;  // used by the kernels that scale or add
  int32_t first_chunk[kMaxCopySegments];
  CopySegment segments[kMaxCopySegments];
};

static_assert(sizeof(StepArgs) <= 4096 && sizeof(NormArgs) <= 4096 && sizeof(CopyArgs) <= 4096,
              "a launch's parameters hold at most 4 KiB on every driver");

}  // namespace shoal::optim_kernels
