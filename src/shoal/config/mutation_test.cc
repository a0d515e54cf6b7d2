// Damaged configurations never crash the reader: whatever comes in, a Config or a report comes out.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "shoal/base/status.h"
#include "shoal/config/config.h"

namespace shoal::config {
namespace {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  const std::filesystem::path folder = std::filesystem::path(SHOAL_TEST_DATA) / "configs";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

// Pieces that are likely to reach deep into the reader.
std::string Piece() {
  return *rc::gen::element<std::string>(
      "{", "}", "[", "]", ",", ":", "\"", "\\u12", "/*", "//", "null", "true", "-1", "1e999", "0.5",
      "9223372036854775808", "inf", "\"auto\"", "{}", "[]", "\"shoal\": {}, ", "\"stage\": 3, ",
      "\xFF", std::string(1, '\0'), "\"params\": {}", "\"type\": \"SGD\", ");
}

std::string Mutate(std::string text) {
  const int num_edits = *rc::gen::inRange(1, 6);
  for (int i = 0; i < num_edits; ++i) {
    const auto at = *rc::gen::inRange<size_t>(0, text.size() + 1);
    const auto length = *rc::gen::inRange<size_t>(0, 20);
    if (*rc::gen::arbitrary<bool>()) {
      text.insert(at, Piece());
    } else {
      text.erase(at, length);
    }
  }
  return text;
}

void CheckOutcome(const Result<Config>& result) {
  if (!result.ok()) {
    RC_ASSERT(result.status().message().starts_with("m.json: "));
    RC_ASSERT(result.status().message().find('\n') != std::string::npos);
    return;
  }
  RC_ASSERT(result->zero_stage >= 0);
  RC_ASSERT(result->zero_stage <= 3);
  RC_ASSERT(result->timeout_s > 0);
  const Result<BatchSizes> batch = ResolveBatch(*result, 3, "test");
  RC_ASSERT(batch.ok() || !batch.status().message().empty());
}

RC_GTEST_PROP(Mutations, OfRealConfigsGiveAConfigOrAReport, ()) {
  static const std::vector<std::string> kSeeds = Seeds();
  for (int i = 0; i < 20; ++i) {
    CheckOutcome(ParseConfigText(Mutate(*rc::gen::elementOf(kSeeds)), "m.json"));
  }
}

RC_GTEST_PROP(Mutations, OfBytesGiveAConfigOrAReport, ()) {
  CheckOutcome(ParseConfigText(*rc::gen::arbitrary<std::string>(), "m.json"));
}

TEST(Mutations, EveryTruncationGivesAReport) {
  for (const std::string& seed : Seeds()) {
    const size_t last = seed.find_last_of('}');
    for (size_t size = 0; size <= last; size += 7) {
      EXPECT_FALSE(ParseConfigText(std::string_view(seed).substr(0, size), "m.json").ok());
    }
  }
}

}  // namespace
}  // namespace shoal::config
