// Sums and conversions of flat buffers on the CPU: the global norm, local sums of reduce-scatter,
// gradient accumulation and casts.
//
// Conversions round to nearest, ties to even. float64 to a 16-bit type goes through float32, as in
// torch; not-a-number stays not-a-number, what is too large becomes infinity. As in optimizers.h
// ([Note: same bits]) results depend on the arguments alone: not on the instruction set, the number
// of threads or the alignment.
//
// Buffers are borrowed and aligned to their element's size (no more). All dtypes are real floats
// (float32, float64, bfloat16, float16); another one is InvalidArgument.
//
// Thread-safety: pure functions; concurrent calls that write disjoint buffers are safe.
#pragma once

#include <cstdint>
#include <span>

#include "shoal/base/dtype.h"
#include "shoal/base/executor.h"
#include "shoal/base/status.h"

namespace shoal::optim {

// The sum of data[i]^2, in float64. An infinity or not-a-number in the data makes the sum
// non-finite; so does a float64 whose square overflows. Blocks of 8,192 elements are summed in 16
// interleaved partial sums each and the blocks' sums in order, whatever the threads.
// @pre numel >= 0, IsRealFloat(dtype), data != null unless numel == 0.
double SumOfSquares(const void* data, DType dtype, int64_t numel, Executor& executor);

// dst[i] = (accumulate ? dst[i] : 0) + pieces[0][i] + pieces[1][i] + ..., added in this order in
// float32 (in float64 if either dtype is float64) and rounded to dst's type once. No pieces: zeros,
// or dst unchanged. `dst` may be one of the pieces if the dtypes are equal; it must not overlap
// them otherwise.
Status SumPieces(std::span<const void* const> pieces, DType pieces_dtype, void* dst,
                 DType dst_dtype, bool accumulate, int64_t numel, Executor& executor);

// dst[i] = src[i]. The buffers must not overlap.
Status Convert(const void* src, DType src_dtype, void* dst, DType dst_dtype, int64_t numel,
               Executor& executor);

// dst[i] += src[i], added as in SumPieces. The buffers must not overlap.
Status Accumulate(const void* src, DType src_dtype, void* dst, DType dst_dtype, int64_t numel,
                  Executor& executor);

}  // namespace shoal::optim
