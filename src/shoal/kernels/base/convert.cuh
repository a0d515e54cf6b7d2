// Conversions between float and the 16-bit storage types, to nearest, ties to even; the same bits
// on every architecture. Device code.
#pragma once

#include "shoal/kernels/base/types.h"

namespace shoal {

__device__ __forceinline__ float ToFloat(float value) { return value; }

__device__ __forceinline__ float ToFloat(bf16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

__device__ __forceinline__ float ToFloat(fp16 value) {
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(value.bits));
  return out;
}

template <typename T>
__device__ __forceinline__ T FromFloat(float value);

template <>
__device__ __forceinline__ float FromFloat<float>(float value) {
  return value;
}

// In integers, since cvt.rn.bf16 exists from sm_80 on only; not-a-number stays not-a-number.
template <>
__device__ __forceinline__ bf16 FromFloat<bf16>(float value) {
  const uint32_t bits = __float_as_uint(value);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  return bf16{static_cast<uint16_t>(is_nan ? 0x7FFFu : rounded)};
}

template <>
__device__ __forceinline__ fp16 FromFloat<fp16>(float value) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return fp16{bits};
}

}  // namespace shoal
