#include "shoal/base/dtype.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace shoal {
namespace {

struct Expected {
  DType dtype;
  int8_t number;
  int64_t bytes;
  std::string_view name;
  bool is_real_float;
};

const std::vector<Expected>& All() {
  static const std::vector<Expected> all = {
      {DType::kFloat32, 0, 4, "float32", true},
      {DType::kFloat64, 1, 8, "float64", true},
      {DType::kBFloat16, 2, 2, "bfloat16", true},
      {DType::kFloat16, 3, 2, "float16", true},
      {DType::kInt8, 4, 1, "int8", false},
      {DType::kInt16, 5, 2, "int16", false},
      {DType::kInt32, 6, 4, "int32", false},
      {DType::kInt64, 7, 8, "int64", false},
      {DType::kUInt8, 8, 1, "uint8", false},
      {DType::kBool, 9, 1, "bool", false},
      {DType::kComplex64, 10, 8, "complex64", false},
      {DType::kComplex128, 11, 16, "complex128", false},
  };
  return all;
}

TEST(DTypeTest, NumberBytesNameAndKindAreStable) {
  for (const Expected& expected : All()) {
    EXPECT_EQ(static_cast<int8_t>(expected.dtype), expected.number) << expected.name;
    EXPECT_EQ(DTypeBytes(expected.dtype), expected.bytes) << expected.name;
    EXPECT_EQ(DTypeName(expected.dtype), expected.name);
    EXPECT_EQ(IsRealFloat(expected.dtype), expected.is_real_float) << expected.name;
  }
}

TEST(DTypeTest, EveryNameParsesBack) {
  for (const Expected& expected : All()) EXPECT_EQ(ParseDType(expected.name), expected.dtype);
}

TEST(DTypeTest, ShortNamesParse) {
  EXPECT_EQ(ParseDType("fp32"), DType::kFloat32);
  EXPECT_EQ(ParseDType("float"), DType::kFloat32);
  EXPECT_EQ(ParseDType("fp64"), DType::kFloat64);
  EXPECT_EQ(ParseDType("double"), DType::kFloat64);
  EXPECT_EQ(ParseDType("bf16"), DType::kBFloat16);
  EXPECT_EQ(ParseDType("fp16"), DType::kFloat16);
  EXPECT_EQ(ParseDType("half"), DType::kFloat16);
}

TEST(DTypeTest, OtherNamesDoNotParse) {
  for (const std::string_view name : {"", "Float32", "float8", "torch.float32", "fp32 "}) {
    EXPECT_EQ(ParseDType(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace shoal
