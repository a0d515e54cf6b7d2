// Finding one's segment, and loads of four elements. Device code.
#pragma once

#include "shoal/kernels/base/convert.cuh"
#include "shoal/kernels/optim/args.h"

namespace shoal::optim_kernels {

// The last segment that begins at or before this block.
__device__ __forceinline__ int SegmentOfBlock(const int32_t* first_chunk, int count, int block) {
  int low = 0;
  int high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (first_chunk[middle] <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ __forceinline__ uint64_t Address(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

// Four elements as one access: 16 bytes of float, 8 of the 16-bit types.
template <typename T>
struct Four {
  static __device__ __forceinline__ void Load(const T* from, float (&to)[4]) {
    const uint2 raw = *reinterpret_cast<const uint2*>(from);
    to[0] = ToFloat(T{static_cast<uint16_t>(raw.x)});
    to[1] = ToFloat(T{static_cast<uint16_t>(raw.x >> 16)});
    to[2] = ToFloat(T{static_cast<uint16_t>(raw.y)});
    to[3] = ToFloat(T{static_cast<uint16_t>(raw.y >> 16)});
  }
  static __device__ __forceinline__ void Store(T* to, const float (&from)[4]) {
    uint2 raw;
    raw.x = FromFloat<T>(from[0]).bits | static_cast<uint32_t>(FromFloat<T>(from[1]).bits) << 16;
    raw.y = FromFloat<T>(from[2]).bits | static_cast<uint32_t>(FromFloat<T>(from[3]).bits) << 16;
    *reinterpret_cast<uint2*>(to) = raw;
  }
};

template <>
struct Four<float> {
  static __device__ __forceinline__ void Load(const float* from, float (&to)[4]) {
    const float4 raw = *reinterpret_cast<const float4*>(from);
    to[0] = raw.x;
    to[1] = raw.y;
    to[2] = raw.z;
    to[3] = raw.w;
  }
  static __device__ __forceinline__ void Store(float* to, const float (&from)[4]) {
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
  }
};

// Whether four elements of T at `pointer` can be one access.
template <typename T>
__device__ __forceinline__ bool IsAligned(const void* pointer) {
  return Address(pointer) % (4 * sizeof(T)) == 0;
}

}  // namespace shoal::optim_kernels
