#include "shoal/ckpt/manifest.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/ckpt/crc32c.h"
#include "shoal/ckpt/json_internal.h"
#include "shoal/io/storage_for_test_internal.h"

namespace shoal::ckpt {
namespace {

constexpr int64_t kHeader = 4096;

FileRecord FileOf(int64_t rank, int64_t data_bytes) {
  return {.name = "rank-0000" + std::to_string(rank) + ".safetensors",
          .rank = rank,
          .size_bytes = kHeader + data_bytes,
          .header_bytes = kHeader,
          .header_crc32c = 5};
}

// Two files; "w" of shape [2,3] in three pieces, "e" without elements.
Manifest Sample() {
  Manifest manifest;
  manifest.step = 12;
  manifest.save_id = "0123456789abcdef";
  manifest.run = {.shoal_version = "0.1.0",
                  .torch_version = "2.13.0",
                  .mesh = "dp=2",
                  .zero_stage = 2,
                  .world_size = 2,
                  .aliases = {{"tied \"é\"", "w"}},
                  .state_json = "{\"big\": 340282366920938463463374607431768211455}"};
  manifest.files = {FileOf(0, 12), FileOf(1, 12)};
  manifest.tensors = {{"w",
                       "exp_avg",
                       DType::kFloat32,
                       {2, 3},
                       {1, 0},
                       {{0, kHeader, 0, 2, 1}, {1, kHeader, 2, 5, 2}, {0, kHeader + 8, 5, 6, 3}}},
                      {"e", "param", DType::kBFloat16, {0, 7}, {}, {}}};
  return manifest;
}

TEST(ManifestTest, TextGivesTheSameManifestBack) {
  const Manifest manifest = Sample();
  SHOAL_ASSERT_OK(CheckManifest(manifest));
  const std::string text = ManifestToText(manifest).value();
  const auto parsed = ManifestFromText(text, "index.json");
  SHOAL_ASSERT_OK(parsed.status());
  EXPECT_EQ(*parsed, manifest);
}

TEST(ManifestTest, ASingleChangedByteAnywhereIsFound) {
  const std::string text = ManifestToText(Sample()).value();
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    const Status status = ManifestFromText(damaged, "x/index.json").status();
    ASSERT_EQ(status.code(), StatusCode::kCorruption) << "byte " << i;
    ASSERT_NE(status.ToString().find("x/index.json"), std::string::npos) << status.ToString();
  }
}

TEST(ManifestTest, EveryTruncationIsFound) {
  const std::string text = ManifestToText(Sample()).value();
  for (size_t size = 0; size < text.size(); ++size) {
    ASSERT_EQ(ManifestFromText(text.substr(0, size), "f").status().code(), StatusCode::kCorruption);
  }
}

// The index with `from` replaced by `to` and its checksum made right again.
std::string Forge(const std::string& from, const std::string& to) {
  std::string text = ManifestToText(Sample()).value();
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const std::string body = text.substr(0, text.rfind(",\"crc32c\""));
  return body + ",\"crc32c\":\"" + HexOf(Crc32c(std::as_bytes(std::span(body)))) + "\"}\n";
}

TEST(ManifestTest, ForgedIndexesAreRefusedWithTheReason) {
  const auto reason = [](const std::string& from, const std::string& to) {
    return ManifestFromText(Forge(from, to), "f").status().ToString();
  };
  const auto expect = [&](const std::string& from, const std::string& to, const std::string& why) {
    const std::string text = reason(from, to);
    EXPECT_NE(text.find(why), std::string::npos) << text;
  };
  expect("rank-00001.safetensors", "../../etc/password____", "must be \"rank-00001.safetensors\"");
  expect("\"step\":12", "\"step\":-1", "\"step\" must be an integer");
  expect("\"step\":12", "\"step\":1e3", "\"step\" must be an integer");
  expect("\"step\":12", "\"step\":99999999999999999999", "\"step\" must be an integer");
  expect("\"step\":12", "\"step\":1,\"step\":1", "appears twice");
  expect("\"step\":12", "\"surprise\":1,\"step\":1", "\"surprise\" is not known");
  expect("\"mesh\":\"dp=2\",", "", "\"mesh\" is missing");
  expect("\"world_size\":2", "\"world_size\":3", "there are 2 files");
  expect("\"zero_stage\":2", "\"zero_stage\":4", "must be 0 to 3");
  expect("\"save_id\":\"0123", "\"save_id\":\"/123", "16 hexadecimal digits");
  expect("\"flat\":[0,2]", "\"flat\":[0,1]", "8 bytes do not fit");
  expect("\"flat\":[2,5]", "\"flat\":[1,4]", "elements [1:2] are written twice");
  expect("\"flat\":[2,5]", "\"flat\":[3,6]", "elements [2:3] are in no piece");
  expect("\"shape\":[2,3]", "\"shape\":[2,4]", "elements [6:8] are in no piece");
  expect("\"shape\":[2,3]", "\"shape\":[2,2]", "outside of 4 elements");
  expect("\"shape\":[0,7]", "\"shape\":[1,7]", "elements [0:7] are in no piece");
  expect("\"shape\":[0,7]", "\"shape\":[0,9223372036854775807]", "too large");
  expect("\"dim_order\":[1,0]", "\"dim_order\":[1,1]", "no order of 2 dims");
  expect("\"offset\":4104", "\"offset\":4096", "overlap at byte 4096");
  expect("\"offset\":4104", "\"offset\":4092", "not in the data");
  expect("\"offset\":4104", "\"offset\":4105", "not in the data");
  expect("\"offset\":4104", "\"offset\":9223372036854775807", "not in the data");
  expect("\"file\":1", "\"file\":2", "file 2 of 2 does not exist");
  expect("\"role\":\"param\"", "\"role\":\"../x\"", "must be of a-z");
  expect("\"name\":\"e\",\"role\":\"param\"", "\"name\":\"w\",\"role\":\"exp_avg\"", "twice");
  expect("\"name\":\"e\"", "\"name\":\"\"", "has no name");
  expect("\"dtype\":\"bfloat16\"", "\"dtype\":\"bf16\"", "unknown dtype \"bf16\"");
  expect("\":\"w\"}", "\":\"x\"}", "alias of \"x\", which is not stored");
  expect("\"format\":\"shoal", "\"format\":\"whale", "no Shoal index");
}

TEST(ManifestTest, AnotherFormatVersionIsUnsupportedAndNamed) {
  const Status status =
      ManifestFromText(Forge("\"format_version\":1", "\"format_version\":2"), "f").status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.ToString().find("version 2, this Shoal reads 1"), std::string::npos)
      << status.ToString();
}

TEST(ManifestTest, NamesThatAreNotUtf8AreRefusedWhenWritten) {
  Manifest manifest = Sample();
  manifest.tensors[0].name = "\xff";
  EXPECT_EQ(ManifestToText(manifest).status().code(), StatusCode::kInvalidArgument);
}

RankRecords RecordsOf(int64_t rank, std::vector<TensorRecord> tensors) {
  return {FileOf(rank, 400), std::move(tensors)};
}

TensorRecord W(int64_t begin, int64_t end, std::vector<int64_t> shape = {4}) {
  return {"w", "param", DType::kFloat32, std::move(shape), {}, {{0, kHeader, begin, end, 9}}};
}

Result<Manifest> Merge(std::vector<RankRecords> records) {
  RunInfo run;
  run.world_size = static_cast<int64_t>(records.size());
  return MergeRecords(1, "0123456789abcdef", run, std::move(records));
}

TEST(ManifestTest, RankRecordsComeBackFromText) {
  const RankRecords records = RecordsOf(1, {W(0, 3), Sample().tensors[1]});
  EXPECT_EQ(RankRecordsFromText(RankRecordsToText(records).value()).value(), records);
  EXPECT_EQ(RankRecordsFromText("{}").status().code(), StatusCode::kCorruption);
  EXPECT_EQ(RankRecordsFromText("").status().code(), StatusCode::kCorruption);
}

TEST(ManifestTest, MergingSortsPiecesAndCountsFiles) {
  const Manifest manifest = Merge({RecordsOf(0, {W(1, 4)}), RecordsOf(1, {W(0, 1)})}).value();
  ASSERT_EQ(manifest.tensors.size(), 1U);
  EXPECT_EQ(manifest.tensors[0].pieces,
            (std::vector<PieceRecord>{{1, kHeader, 0, 1, 9}, {0, kHeader, 1, 4, 9}}));
}

TEST(ManifestTest, MergingNamesWhatIsMissingTwiceOrDifferent) {
  const auto reason = [](std::vector<RankRecords> records) {
    return Merge(std::move(records)).status().ToString();
  };
  EXPECT_NE(reason({RecordsOf(0, {W(0, 1)}), RecordsOf(1, {W(2, 4)})})
                .find("tensor \"w\" (param): elements [1:2] are in no piece"),
            std::string::npos);
  EXPECT_NE(reason({RecordsOf(0, {W(0, 4)}), RecordsOf(1, {W(0, 4)})})
                .find("elements [0:4] are written twice"),
            std::string::npos);
  EXPECT_NE(reason({RecordsOf(0, {W(0, 4)}), RecordsOf(1, {W(4, 5, {5})})})
                .find("ranks 0 and 1 disagree about tensor \"w\" (param): float32 [4] and "
                      "float32 [5]"),
            std::string::npos);
  EXPECT_NE(reason({RecordsOf(1, {W(0, 4)})}).find("must be \"rank-00000.safetensors\""),
            std::string::npos);
}

TEST(CheckedNumelTest, RefusesNegativeAndTooLargeSizes) {
  EXPECT_EQ(CheckedNumel({}, DType::kFloat32).value(), 1);
  EXPECT_EQ(CheckedNumel({2, 3}, DType::kComplex128).value(), 6);
  EXPECT_EQ(CheckedNumel({0, int64_t{1} << 60}, DType::kUInt8).value(), 0);
  EXPECT_EQ(CheckedNumel({int64_t{1} << 60}, DType::kUInt8).value(), int64_t{1} << 60);
  EXPECT_FALSE(CheckedNumel({int64_t{1} << 60}, DType::kFloat64).ok());
  EXPECT_FALSE(CheckedNumel({0, int64_t{1} << 60, 8}, DType::kUInt8).ok());
  EXPECT_FALSE(CheckedNumel({-1}, DType::kUInt8).ok());
}

// A forged index gives an answer whatever stands in it (run under ASan and UBSan).
RC_GTEST_PROP(ManifestTest, AnyForgedByteIsReadOrRefused, (uint16_t position, uint8_t value)) {
  std::string body = ManifestToText(Sample()).value();
  body = body.substr(0, body.rfind(",\"crc32c\""));
  body[position % body.size()] = static_cast<char>(value);
  const std::string text =
      body + ",\"crc32c\":\"" + HexOf(Crc32c(std::as_bytes(std::span(body)))) + "\"}\n";
  const auto manifest = ManifestFromText(text, "f");
  if (manifest.ok()) RC_ASSERT(CheckManifest(*manifest).ok());
}

}  // namespace
}  // namespace shoal::ckpt
