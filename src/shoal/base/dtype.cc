#include "shoal/base/dtype.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "shoal/base/check.h"

namespace shoal {
namespace {

struct DTypeInfo {
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<DTypeInfo, 12> kInfos = {{
    {"float32", 4},
    {"float64", 8},
    {"bfloat16", 2},
    {"float16", 2},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"uint8", 1},
    {"bool", 1},
    {"complex64", 8},
    {"complex128", 16},
}};

struct Alias {
  std::string_view name;
  DType dtype;
};

constexpr std::array<Alias, 7> kAliases = {{
    {"fp32", DType::kFloat32},
    {"float", DType::kFloat32},
    {"fp64", DType::kFloat64},
    {"double", DType::kFloat64},
    {"bf16", DType::kBFloat16},
    {"fp16", DType::kFloat16},
    {"half", DType::kFloat16},
}};

const DTypeInfo& Info(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  SHOAL_CHECK(index < kInfos.size());
  return kInfos[index];
}

}  // namespace

int64_t DTypeBytes(DType dtype) { return Info(dtype).bytes; }

std::string_view DTypeName(DType dtype) { return Info(dtype).name; }

std::optional<DType> ParseDType(std::string_view name) {
  for (size_t i = 0; i < kInfos.size(); ++i) {
    if (kInfos[i].name == name) return static_cast<DType>(i);
  }
  for (const Alias& alias : kAliases) {
    if (alias.name == name) return alias.dtype;
  }
  return std::nullopt;
}

bool IsRealFloat(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kBFloat16 ||
         dtype == DType::kFloat16;
}

}  // namespace shoal
