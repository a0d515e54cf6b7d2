// DType to and from c10::ScalarType: the border of the torch-free rooms.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

#include "shoal/base/dtype.h"
#include "shoal/torch/status_error.h"

namespace shoal {

inline c10::ScalarType ToTorch(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return c10::ScalarType::Float;
    case DType::kFloat64:
      return c10::ScalarType::Double;
    case DType::kBFloat16:
      return c10::ScalarType::BFloat16;
    case DType::kFloat16:
      return c10::ScalarType::Half;
    case DType::kInt8:
      return c10::ScalarType::Char;
    case DType::kInt16:
      return c10::ScalarType::Short;
    case DType::kInt32:
      return c10::ScalarType::Int;
    case DType::kInt64:
      return c10::ScalarType::Long;
    case DType::kUInt8:
      return c10::ScalarType::Byte;
    case DType::kBool:
      return c10::ScalarType::Bool;
    case DType::kComplex64:
      return c10::ScalarType::ComplexFloat;
    case DType::kComplex128:
      return c10::ScalarType::ComplexDouble;
  }
  Throw(Status::Internal("dtype", "unknown DType"));
}

// Throws Unsupported for types that Shoal does not store (quantised, float8, ...).
inline DType FromTorch(c10::ScalarType type) {
  for (int8_t i = 0; i <= static_cast<int8_t>(DType::kComplex128); ++i) {
    if (ToTorch(static_cast<DType>(i)) == type) return static_cast<DType>(i);
  }
  Throw(Status::Unsupported("dtype", std::string("no support for torch's ") + c10::toString(type)));
}

}  // namespace shoal
