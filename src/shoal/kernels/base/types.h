// The types that device code and the host code that launches it agree on: fixed-width integers,
// 16-bit floats as storage, the tensor map of a bulk copy.
//
// The one kind of header of this room that host code may include (this file and `args.h` of an op);
// so nothing here is device code. NVRTC has no <cstdint>, hence the definitions.
#pragma once

#if defined(__CUDACC_RTC__)
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
using uintptr_t = unsigned long long;
#else
#include <cstdint>
#endif

namespace shoal {

// Storage of a bfloat16 and an IEEE half. Arithmetic is done in float (base/convert.cuh).
struct bf16 {
  uint16_t bits;
};
struct fp16 {
  uint16_t bits;
};

// CUtensorMap: made by the driver (device/driver.h), passed to a kernel by value as
// `const __grid_constant__ TensorMap`, used by its address.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

static_assert(sizeof(int64_t) == 8 && sizeof(uintptr_t) == sizeof(void*));
static_assert(sizeof(bf16) == 2 && sizeof(fp16) == 2);
static_assert(sizeof(TensorMap) == 128);

}  // namespace shoal
