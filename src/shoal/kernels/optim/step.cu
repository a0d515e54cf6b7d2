// Optimizers on flat shards: unscale, clip, update and the compute-dtype copy in one pass.
//
// The formulas, their order and their rounding are those of optim/optimizers.h ([Note: same bits]):
// compiled without fused multiply-add, a step here gives the bits of a step on the CPU. The pass
// waits for memory (28 bytes per parameter and more), so that costs nothing.
#include "shoal/kernels/optim/segments.cuh"

namespace shoal::optim_kernels {

// AdamW, and Adam with weight decay in the gradient.
struct Adam {
  static constexpr bool kState0 = true;
  static constexpr bool kState1 = true;
  static __device__ __forceinline__ float Update(const StepScalars& s, float g, float p, float& m,
                                                 float& v) {
    if (s.decay & 1u) p = p * s.keep;
    if (s.decay & 2u) g = g + s.weight_decay * p;
    m = s.one_minus_beta1 < 0.5f ? m + s.one_minus_beta1 * (g - m) : g - s.beta1 * (g - m);
    v = v * s.beta2 + (s.one_minus_beta2 * g) * g;
    const float d = sqrtf(v) / s.sqrt_correction2 + s.eps;
    return p + (s.minus_step * m) / d;
  }
};

struct Sgd {
  static constexpr bool kState0 = false;
  static constexpr bool kState1 = false;
  static __device__ __forceinline__ float Update(const StepScalars& s, float g, float p, float&,
                                                 float&) {
    if (s.decay & 2u) g = g + s.weight_decay * p;
    return p + s.minus_step * g;
  }
};

struct SgdMomentum {
  static constexpr bool kState0 = true;
  static constexpr bool kState1 = false;
  static __device__ __forceinline__ float Update(const StepScalars& s, float g, float p, float& b,
                                                 float&) {
    if (s.decay & 2u) g = g + s.weight_decay * p;
    b = s.first ? g : b * s.beta1 + s.one_minus_beta1 * g;
    return p + s.minus_step * (s.nesterov ? g + s.beta1 * b : b);
  }
};

// p = p * (1 - lr*wd) - lr * sign(b1*m + (1-b1)*g);  m = b2*m + (1-b2)*g
struct Lion {
  static constexpr bool kState0 = true;
  static constexpr bool kState1 = false;
  static __device__ __forceinline__ float Update(const StepScalars& s, float g, float p, float& m,
                                                 float&) {
    if (s.decay & 1u) p = p * s.keep;
    const float c = m * s.beta1 + s.one_minus_beta1 * g;
    m = m * s.beta2 + s.one_minus_beta2 * g;
    const float sign = c > 0.0f ? 1.0f : (c < 0.0f ? -1.0f : c);  // 0 stays 0, not-a-number too
    return p + s.minus_step * sign;
  }
};

template <typename Rule, typename G, typename C>
__device__ __forceinline__ void StepOne(const StepScalars& s, const StepSegment& seg, float scale,
                                        int64_t i) {
  float m = Rule::kState0 ? seg.state0[i] : 0.0f;
  float v = Rule::kState1 ? seg.state1[i] : 0.0f;
  const float g = ToFloat(static_cast<const G*>(seg.grad)[i]) * scale;
  const float p = Rule::Update(s, g, seg.master[i], m, v);
  seg.master[i] = p;
  if (Rule::kState0) seg.state0[i] = m;
  if (Rule::kState1) seg.state1[i] = v;
  if (seg.compute != nullptr) static_cast<C*>(seg.compute)[i] = FromFloat<C>(p);
}

template <typename Rule, typename G, typename C>
__device__ __forceinline__ void StepFour(const StepScalars& s, const StepSegment& seg, float scale,
                                         int64_t i) {
  float g[4], p[4], m[4] = {}, v[4] = {};
  Four<G>::Load(static_cast<const G*>(seg.grad) + i, g);
  Four<float>::Load(seg.master + i, p);
  if (Rule::kState0) Four<float>::Load(seg.state0 + i, m);
  if (Rule::kState1) Four<float>::Load(seg.state1 + i, v);
#pragma unroll
  for (int k = 0; k < 4; ++k) p[k] = Rule::Update(s, g[k] * scale, p[k], m[k], v[k]);
  Four<float>::Store(seg.master + i, p);
  if (Rule::kState0) Four<float>::Store(seg.state0 + i, m);
  if (Rule::kState1) Four<float>::Store(seg.state1 + i, v);
  if (seg.compute != nullptr) Four<C>::Store(static_cast<C*>(seg.compute) + i, p);
}

// One block per chunk of kStepChunk elements. G: gradient, C: compute copy.
template <typename Rule, typename G, typename C>
__global__ void __launch_bounds__(kThreads) Step(const __grid_constant__ StepArgs args) {
  float scale = 1.0f;
  if (args.control != nullptr) {
    if (args.control->skip != 0) return;
    scale = args.control->grad_scale;
  }
  const int index = SegmentOfBlock(args.first_chunk, args.num_segments, blockIdx.x);
  const StepSegment seg = args.segments[index];
  const int64_t begin = static_cast<int64_t>(blockIdx.x - args.first_chunk[index]) * kStepChunk;
  const int64_t end = min(begin + kStepChunk, static_cast<long long>(seg.numel));
  const uint64_t floats = Address(seg.master) | (Rule::kState0 ? Address(seg.state0) : 0) |
                          (Rule::kState1 ? Address(seg.state1) : 0);
  const bool fast = floats % 16 == 0 && IsAligned<G>(seg.grad) && IsAligned<C>(seg.compute);
  if (fast && end - begin == kStepChunk) {
#pragma unroll 2
    for (int k = 0; k < kStepChunk / (4 * kThreads); ++k) {
      StepFour<Rule, G, C>(args.scalars, seg, scale, begin + 4 * (k * kThreads + threadIdx.x));
    }
  } else {
    for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
      StepOne<Rule, G, C>(args.scalars, seg, scale, i);
    }
  }
}

}  // namespace shoal::optim_kernels
