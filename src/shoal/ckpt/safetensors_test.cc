#include "shoal/ckpt/safetensors.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/io/memory_storage.h"
#include "shoal/io/storage_for_test_internal.h"

namespace shoal::ckpt {
namespace {

Status Parse(const std::string& json, int64_t data_bytes) {
  return SafetensorsHeaderFromJson(json, data_bytes, "evil.safetensors").status();
}

// A header that must be refused, and why.
struct Refused {
  std::string json;
  int64_t data_bytes;
  std::string reason;
};

class RefusedHeaderTest : public testing::TestWithParam<Refused> {};

TEST_P(RefusedHeaderTest, IsCorruptionThatNamesFileAndReason) {
  const Status status = Parse(GetParam().json, GetParam().data_bytes);
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_NE(status.ToString().find("evil.safetensors"), std::string::npos) << status.ToString();
  EXPECT_NE(status.ToString().find(GetParam().reason), std::string::npos) << status.ToString();
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedHeaderTest,
    testing::Values(
        Refused{"", 0, "begin with {"}, Refused{"[]", 0, "begin with {"},
        Refused{"{", 0, "malformed JSON"}, Refused{"{} x", 0, "malformed JSON"},
        Refused{"{\"a\":\"\xff\"}", 0, "malformed JSON"},
        Refused{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                8, "\"a\" appears twice"},
        Refused{R"({"a":{"dtype":"F32","dtype":"F64","shape":[],"data_offsets":[0,8]}})", 8,
                "\"dtype\" appears twice"},
        Refused{R"({"a":[[[[1]]]]})", 0, "nested deeper"},
        Refused{"{\"a\":" + std::string(100000, '['), 0, "nested deeper"},
        Refused{R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, "nested deeper"},
        Refused{R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4, "integers >= 0"},
        Refused{R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype"},
        Refused{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4, "\"x\""},
        Refused{R"({"a":{"dtype":"F32","shape":[1]}})", 4, "\"data_offsets\" is missing"},
        Refused{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "two data_offsets"},
        Refused{R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "integers >= 0"},
        Refused{R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "integers >= 0"},
        Refused{R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4,
                "integers >= 0"},
        Refused{R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4,
                "overflows"},
        Refused{R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "64 bits"},
        Refused{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "offsets 4 to 0"},
        Refused{R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,0]}})", 0, "4 bits"},
        Refused{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "leaves a hole"},
        Refused{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                6, "overlaps"},
        Refused{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3, "which has 3"},
        Refused{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5, "which has 5"},
        Refused{R"({"a":7})", 0, "no JSON object"},
        Refused{R"({"__metadata__":{"a":1}})", 0, "object of strings"}));

TEST(SafetensorsTest, ReadsEntriesInTheOrderOfTheirBytes) {
  const auto header = SafetensorsHeaderFromJson(
      R"({"b":{"dtype":"F16","shape":[],"data_offsets":[8,10]},"__metadata__":{"format":"pt"},)"
      R"("e":{"dtype":"U8","shape":[3,0],"data_offsets":[8,8]},)"
      R"("a":{"dtype":"I32","shape":[2,1],"data_offsets":[0,8]}}   )",
      10, "f");
  SHOAL_ASSERT_OK(header.status());
  EXPECT_EQ(header->metadata.at("format"), "pt");
  EXPECT_EQ(header->entries,
            (std::vector<SafetensorsEntry>{
                {"a", "I32", {2, 1}, 0, 8}, {"e", "U8", {3, 0}, 8, 8}, {"b", "F16", {}, 8, 10}}));
}

TEST(SafetensorsTest, RefusesAHeaderLargerThanTheFile) {
  io::MemoryStorage storage;
  const std::string huge("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
  const std::string short_by_one("\x03\0\0\0\0\0\0\0{}", 10);
  SHOAL_ASSERT_OK(io::WriteText(storage, "/huge", huge));
  SHOAL_ASSERT_OK(io::WriteText(storage, "/short", short_by_one));
  SHOAL_ASSERT_OK(io::WriteText(storage, "/tiny", "1234567"));
  for (const std::string path : {"/huge", "/short", "/tiny"}) {
    const auto file = storage.OpenToRead(path).value();
    const Status status = ReadSafetensorsHeader(*file, path).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << path;
  }
}

TEST(SafetensorsTest, RefusesToWriteNamesThatAreNotUtf8) {
  const SafetensorsHeader header{.metadata = {}, .entries = {{"\xff", "U8", {0}, 0, 0}}};
  EXPECT_EQ(SafetensorsHeaderToText(header).status().code(), StatusCode::kInvalidArgument);
}

RC_GTEST_PROP(SafetensorsTest, WhatIsWrittenIsReadBack, (std::vector<uint8_t> sizes)) {
  SafetensorsHeader header{.metadata = {{"quote \"", "line\n\xc3\xa9"}}, .entries = {}};
  int64_t offset = 0;
  for (const uint8_t size : sizes) {
    const int64_t bytes = int64_t{size} * 2;
    header.entries.push_back({.name = "t" + std::to_string(header.entries.size()),
                              .dtype = "BF16",
                              .shape = {size},
                              .begin_bytes = offset,
                              .end_bytes = offset + bytes});
    offset += bytes;
  }
  const std::string text = SafetensorsHeaderToText(header).value();
  RC_ASSERT(text.size() % kHeaderAlignment == 0U);
  io::MemoryStorage storage;
  RC_ASSERT(
      io::WriteText(storage, "/f", text + std::string(static_cast<size_t>(offset), 'x')).ok());
  const auto file = storage.OpenToRead("/f").value();
  const auto read = ReadSafetensorsHeader(*file, "/f");
  RC_ASSERT(read.ok());
  RC_ASSERT(read->metadata == header.metadata);
  RC_ASSERT(read->entries.size() == header.entries.size());
  for (const SafetensorsEntry& entry : header.entries) {
    RC_ASSERT(std::find(read->entries.begin(), read->entries.end(), entry) != read->entries.end());
  }
}

// Any bytes at all: an answer, never a crash (run under ASan and UBSan).
RC_GTEST_PROP(SafetensorsTest, AnyMutationIsReadOrRefused, (uint16_t position, uint8_t value)) {
  std::string json = R"({"a":{"dtype":"I32","shape":[2,1],"data_offsets":[0,8]}})";
  json[position % json.size()] = static_cast<char>(value);
  const auto header = SafetensorsHeaderFromJson(json, 8, "f");
  if (!header.ok()) RC_ASSERT(header.status().code() == StatusCode::kCorruption);
}

}  // namespace
}  // namespace shoal::ckpt
