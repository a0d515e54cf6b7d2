// Casts of many tensors into a flat buffer, or out of one, in one launch: copied, or added in
// float.
#include "shoal/kernels/optim/segments.cuh"

namespace shoal::optim_kernels {

// to = from, or to = to + from * scale with each product and sum rounded to float.
template <typename From, typename To, bool kAdd>
__global__ void __launch_bounds__(kThreads) Copy(const __grid_constant__ CopyArgs args) {
  const int index = SegmentOfBlock(args.first_chunk, args.num_segments, blockIdx.x);
  const CopySegment seg = args.segments[index];
  const int64_t begin = static_cast<int64_t>(blockIdx.x - args.first_chunk[index]) * kCopyChunk;
  const int64_t end = min(begin + kCopyChunk, static_cast<long long>(seg.numel));
  const From* from = static_cast<const From*>(seg.from);
  To* to = static_cast<To*>(seg.to);
  if (IsAligned<From>(from) && IsAligned<To>(to) && end - begin == kCopyChunk) {
#pragma unroll 4
    for (int k = 0; k < kCopyChunk / (4 * kThreads); ++k) {
      const int64_t i = begin + 4 * (k * kThreads + static_cast<int>(threadIdx.x));
      float x[4], y[4];
      Four<From>::Load(from + i, x);
      if (kAdd) {
        Four<To>::Load(to + i, y);
#pragma unroll
        for (int j = 0; j < 4; ++j) x[j] = y[j] + x[j] * args.scale;
      }
      Four<To>::Store(to + i, x);
    }
  } else {
    for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
      const float x = ToFloat(from[i]);
      to[i] = FromFloat<To>(kAdd ? ToFloat(to[i]) + x * args.scale : x);
    }
  }
}

}  // namespace shoal::optim_kernels
