// DType: the element types of tensors that Shoal stores, moves and updates. Torch-free; the torch
// rooms convert from and to c10::ScalarType at the border.
//
// Thread-safety: pure functions and values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shoal {

// Numeric values are stable (they are hashed and compared across ranks).
enum class DType : int8_t {
  kFloat32 = 0,
  kFloat64 = 1,
  kBFloat16 = 2,
  kFloat16 = 3,
  kInt8 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kUInt8 = 8,
  kBool = 9,
  kComplex64 = 10,
  kComplex128 = 11,
};

// Bytes of one element.
int64_t DTypeBytes(DType dtype);

// Shoal's name: "float32", "bfloat16", "int64", "bool", "complex64", ... (torch's names without the
// prefix).
std::string_view DTypeName(DType dtype);

// Accepts Shoal's names and the usual short ones ("fp32", "bf16", "fp16", "half", "double",
// "float").
std::optional<DType> ParseDType(std::string_view name);

// True for float16, bfloat16, float32, float64.
bool IsRealFloat(DType dtype);

}  // namespace shoal
