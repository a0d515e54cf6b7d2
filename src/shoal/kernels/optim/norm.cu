// The global norm and the check for overflow in one pass over the gradients, and what follows from
// it for the step, all on the device.
//
// Sums are in float64: a block sums a chunk of fixed size in a fixed order into one partial, one
// block sums the partials in a fixed order. So the bits depend on the data and the cut into
// segments alone, not on the device. An infinity or not-a-number makes the sum non-finite.
#include "shoal/kernels/optim/segments.cuh"

namespace shoal::optim_kernels {

__device__ __forceinline__ double SumOfBlock(double value) {
  __shared__ double warps[kThreads / 32];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_down_sync(0xFFFFFFFFu, value, offset);
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
#pragma unroll
    for (int warp = 1; warp < kThreads / 32; ++warp) value += warps[warp];
  }
  return value;  // of thread 0
}

// Which element goes to which thread does not depend on the alignment: four neighbours each.
template <typename T>
__global__ void __launch_bounds__(kThreads) SumSquares(const __grid_constant__ NormArgs args) {
  const int index = SegmentOfBlock(args.first_chunk, args.num_segments, blockIdx.x);
  const NormSegment seg = args.segments[index];
  const int64_t begin = static_cast<int64_t>(blockIdx.x - args.first_chunk[index]) * kNormChunk;
  const T* data = static_cast<const T*>(seg.data);
  const bool fast = IsAligned<T>(data) && begin + kNormChunk <= seg.numel;
  double sums[4] = {};
#pragma unroll 4
  for (int k = 0; k < kNormChunk / (4 * kThreads); ++k) {
    const int64_t i = begin + 4 * (k * kThreads + static_cast<int>(threadIdx.x));
    float x[4] = {};
    if (fast) {
      Four<T>::Load(data + i, x);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) x[j] = i + j < seg.numel ? ToFloat(data[i + j]) : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) sums[j] += static_cast<double>(x[j]) * static_cast<double>(x[j]);
  }
  const double sum = SumOfBlock((sums[0] + sums[1]) + (sums[2] + sums[3]));
  if (threadIdx.x == 0) args.partials[blockIdx.x] = sum;
}

// One block.
__global__ void __launch_bounds__(kThreads) FinishSum(const __grid_constant__ FinishArgs args) {
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < args.num_partials; i += kThreads) sum += args.partials[i];
  sum = SumOfBlock(sum);
  if (threadIdx.x == 0) *args.sum = sum;
}

// One thread.
__global__ void MakeControl(const __grid_constant__ ControlArgs args) {
  const double inverse =
      1.0 /
      ((args.loss_scale != nullptr ? static_cast<double>(*args.loss_scale) : 1.0) * args.divisor);
  const double norm = sqrt(*args.sum) * inverse;
  double scale = inverse;
  if (args.max_norm > 0.0) scale *= fmin(1.0, args.max_norm / (norm + 1e-6));
  Control out;
  out.skip = isfinite(norm) ? 0u : 1u;
  out.grad_scale = static_cast<float>(scale);
  out.norm = norm;
  *args.control = out;
}

}  // namespace shoal::optim_kernels
