// The inner loops of this room, one table per instruction set; kernels.cc builds them all and
// ChooseKernels picks the best that this processor runs. Callers fetch the table once per call and
// cut the work into tiles, so that a tile's conversions stay in the first-level cache.
//
// Pointers are aligned to their element's size; n >= 0. Tables are indexed by DType (the first four
// values are the real floats) or, where only float32 and float64 can occur, by the same two values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "shoal/base/dtype.h"

namespace shoal::optim::internal {

inline constexpr size_t kNumRealFloats = 4;
inline constexpr size_t kNumMasterTypes = 2;
// Elements of one block of SumOfSquares, and its interleaved partial sums.
inline constexpr int64_t kSumBlock = 8192;

constexpr size_t IndexOf(DType dtype) { return static_cast<size_t>(dtype); }

// Scalars of optimizers.h's formulas, in float64; kernels round each once to the master's type.
struct AdamScalars {
  double grad_scale;
  double shrink;  // 1 - LR*WD for AdamW, 1 for Adam
  double l2;      // WD for Adam, 0 for AdamW
  double one_minus_beta1;
  double beta1;
  double beta2;
  double one_minus_beta2;
  double sqrt_correction2;
  double eps;
  double minus_step_size;
};

struct SgdScalars {
  double grad_scale;
  double l2;
  double momentum;
  double one_minus_dampening;
  double minus_lr;
  bool has_momentum;
  bool is_first;
  bool nesterov;
};

// One tile of an update, all buffers of the master's type.
struct Tile {
  const void* grad;
  void* master;
  void* state0;
  void* state1;
  int64_t n;
};

// Elements [begin, end) of reduce.h's SumPieces.
struct SumArgs {
  std::span<const void* const> pieces;
  void* dst;
  bool accumulate;
  int64_t begin;
  int64_t end;
};

struct Kernels {
  using ConvertFn = void (*)(const void* src, void* dst, int64_t n);
  using SumFn = void (*)(const SumArgs& args);
  using SumOfSquaresFn = double (*)(const void* data, int64_t n);
  using AdamFn = void (*)(const AdamScalars& scalars, const Tile& tile);
  using SgdFn = void (*)(const SgdScalars& scalars, const Tile& tile);

  std::array<std::array<ConvertFn, kNumRealFloats>, kNumRealFloats> convert;  // [src][dst]
  std::array<std::array<SumFn, kNumRealFloats>, kNumRealFloats> sum;          // [pieces][dst]
  std::array<SumOfSquaresFn, kNumRealFloats> sum_of_squares;                  // @pre n <= kSumBlock
  std::array<AdamFn, kNumMasterTypes> adam;                                   // [master]
  std::array<SgdFn, kNumMasterTypes> sgd;                                     // [master]
};

// The table of the best instruction set of this processor.
const Kernels& ChooseKernels();

}  // namespace shoal::optim::internal
