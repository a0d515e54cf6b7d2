// Optimizers on flat shards for the CPU: AdamW, Adam and SGD with torch's formulas, every
// instruction set in one build.
//
// Goals: one pass over memory that unscales, clips, updates and writes the compute copy; results
// that depend on nothing but the arguments. Non-goals: parameter groups, schedules, skipping of
// steps (the engine's), devices other than the CPU.
//
// [Note: same bits] Only additions, multiplications, divisions and square roots of the master's
// type are used, each rounded on its own (no fused multiply-add), in the order written below. So
// the bits of a result do not depend on the instruction set, the number of threads, the cut into
// ranges or the alignment. Rejected: fused multiply-add, which would save nothing (the pass waits
// for memory) and make machines of different kinds drift apart.
//
// Order of operations per element, for update number t (1-based), in the master's type. Scalars in
// capitals are computed in float64 and rounded once.
//   g = convert(grad) * GRAD_SCALE
//   AdamW  p = p * (1 - LR*WD)               where WD != 0
//   Adam   g = g + WD * p                    where WD != 0
//   both   m = m + (1-B1) * (g - m)          where 1-B1 < 0.5, else m = g - B1 * (g - m)
//          v = v * B2 + ((1-B2) * g) * g
//          d = sqrt(v) / SQRT(1 - B2^t) + EPS
//          p = p + (-LR / (1 - B1^t) * m) / d      (bias_correction=false: both 1 - B^t are 1)
//   SGD    g = g + WD * p                    where WD != 0
//          b = t == 1 ? g : b * MOMENTUM + (1-DAMPENING) * g       where MOMENTUM != 0
//          g = NESTEROV ? g + MOMENTUM * b : b                     where MOMENTUM != 0
//          p = p + (-LR) * g
//   compute = round(p)                       to nearest, ties to even; float64 to a 16-bit type
//                                            goes through float32, as in torch
// m, v and b are state0, state1 and state0. Not-a-number and infinity propagate as IEEE 754 says;
// whether such a step is taken is decided before it. Elements that are 0 in grad, master and states
// stay 0 (Adam: if eps > 0).
//
// Thread-safety: pure functions; concurrent calls on disjoint ranges are safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/executor.h"
#include "shoal/base/status.h"

namespace shoal::optim {

enum class Kind {
  kAdamW,  // Weight decay shrinks the parameter itself (decoupled).
  kAdam,   // Weight decay is added to the gradient (L2).
  kSgd,    // With momentum, dampening and Nesterov's variant as in torch.optim.SGD.
};

// "AdamW", "Adam", "SGD".
std::string_view KindName(Kind kind);

// The hyper-parameters of one parameter group. Those of another kind are ignored.
struct Hyper {
  Kind kind = Kind::kAdamW;
  double lr = 1e-3;             // >= 0
  double beta1 = 0.9;           // Adam: 0 <= beta1 < 1
  double beta2 = 0.999;         // Adam: 0 <= beta2 < 1
  double eps = 1e-8;            // Adam: >= 0
  double weight_decay = 0.0;    // >= 0
  double momentum = 0.0;        // SGD: >= 0
  double dampening = 0.0;       // SGD: any finite value
  bool nesterov = false;        // SGD: needs momentum > 0 and dampening == 0
  bool bias_correction = true;  // Adam
};

// InvalidArgument naming the first value that breaks a rule above.
Status Validate(const Hyper& hyper);

// How many state buffers of the master's shape and dtype an optimizer keeps: Adam(W) 2, SGD 1 with
// momentum, else 0. They start as zeros.
int64_t NumStates(const Hyper& hyper);

// Their names, in the order state0, state1: "exp_avg", "exp_avg_sq"; "momentum_buffer".
std::vector<std::string_view> StateNames(const Hyper& hyper);

// One contiguous run of elements of a flat shard. The pointers are borrowed, each at the run's
// first element and aligned to its element's size (no more). Buffers of a run must not overlap,
// neither each other nor those of another run of the same call.
struct Range {
  int64_t numel = 0;
  const void* grad = nullptr;
  DType grad_dtype = DType::kFloat32;  // float32, float64, bfloat16, float16
  void* master = nullptr;
  DType master_dtype = DType::kFloat32;  // float32, float64
  void* state0 = nullptr;                // master dtype; null where unused
  void* state1 = nullptr;
  void* compute = nullptr;                 // Null where the master itself is what is computed with.
  DType compute_dtype = DType::kBFloat16;  // float32, float64, bfloat16, float16
};

// Update number `step` (>= 1) of all ranges with one set of hyper-parameters. `grad_scale` (finite)
// multiplies every gradient: 1 / (loss scale * ranks * micro-batches) times the clip factor.
// Many small ranges cost no more than one large one: threads share elements, not ranges.
// InvalidArgument for values that break a rule (nothing was written then).
Status Step(const Hyper& hyper, int64_t step, double grad_scale, std::span<const Range> ranges,
            Executor& executor);

}  // namespace shoal::optim
