#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "shoal/base/status.h"
#include "shoal/config/config.h"

namespace shoal::config {
namespace {

Config Make(std::optional<int64_t> train, std::optional<int64_t> micro,
            std::optional<int64_t> steps, Dialect dialect = Dialect::kDeepSpeed) {
  Config config;
  config.source = "c.json";
  config.dialect = dialect;
  config.train_batch_size = train;
  config.micro_batch_size = micro;
  config.gradient_accumulation_steps = steps;
  return config;
}

void ExpectSizes(const Result<BatchSizes>& result, int64_t train, int64_t micro, int64_t steps) {
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->train_batch, train);
  EXPECT_EQ(result->micro_batch, micro);
  EXPECT_EQ(result->accumulation, steps);
}

TEST(ResolveBatch, AnyTwoNumbersGiveTheThird) {
  ExpectSizes(ResolveBatch(Make(24, 3, std::nullopt), 2, "test"), 24, 3, 4);
  ExpectSizes(ResolveBatch(Make(24, std::nullopt, 4), 2, "test"), 24, 3, 4);
  ExpectSizes(ResolveBatch(Make(std::nullopt, 3, 4), 2, "test"), 24, 3, 4);
  ExpectSizes(ResolveBatch(Make(24, 3, 4), 2, "test"), 24, 3, 4);
}

TEST(ResolveBatch, OneBatchSizeMeansNoAccumulation) {
  ExpectSizes(ResolveBatch(Make(400, std::nullopt, std::nullopt), 8, "test"), 400, 50, 1);
  ExpectSizes(ResolveBatch(Make(std::nullopt, 5, std::nullopt), 8, "test"), 40, 5, 1);
}

TEST(ResolveBatch, NoBatchSizeIsAnErrorOnlyForDeepSpeed) {
  const auto deepspeed = ResolveBatch(Make(std::nullopt, std::nullopt, 2), 4, "4 ranks");
  EXPECT_EQ(deepspeed.status().message(),
            "c.json: no batch size; give train_micro_batch_size_per_gpu or train_batch_size (a "
            "multiple of the data-parallel size 4, from 4 ranks)");
  ExpectSizes(ResolveBatch(Make(std::nullopt, std::nullopt, 2, Dialect::kShoal), 4, "4 ranks"), 0,
              0, 2);
}

// C99: the message must show that the world was seen as 1, and which world the numbers mean.
TEST(ResolveBatch, SaysWhereTheWorldSizeCameFromAndWhichOneFits) {
  const Status status =
      ResolveBatch(Make(256, 4, 8), 1, "no process group, counted as 1 rank").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "c.json: train_batch_size 256 must be train_micro_batch_size_per_gpu 4 x "
      "gradient_accumulation_steps 8 x data-parallel size 1 (from no process group, counted "
      "as 1 rank); nearest valid: 256 = 4 x 64 x 1, 256 = 32 x 8 x 1, 260 = 4 x 65 x 1; these "
      "numbers fit data-parallel size 8");
}

TEST(ResolveBatch, NamesTheNearestTriplesWhenNoneIsExact) {
  EXPECT_EQ(ResolveBatch(Make(400, std::nullopt, std::nullopt), 3, "test").status().message(),
            "c.json: train_batch_size 400 must be train_micro_batch_size_per_gpu (not given) x "
            "gradient_accumulation_steps (not given) x data-parallel size 3 (from test); nearest "
            "valid: 399 = 133 x 1 x 3, 402 = 134 x 1 x 3");
  const std::string seven = ResolveBatch(Make(256, 2, 18), 7, "7 ranks").status().message();
  EXPECT_NE(seven.find("nearest valid: 252 = 2 x 18 x 7, 266 = 2 x 19 x 7"), std::string::npos)
      << seven;
}

TEST(ResolveBatch, RefusesSizesBelowOneAndSurvivesHugeOnes) {
  EXPECT_EQ(ResolveBatch(Make(8, 1, 1), 0, "test").status().message(),
            "c.json: the data-parallel size must be >= 1, found 0 (from test)");
  EXPECT_FALSE(ResolveBatch(Make(8, 0, 1), 1, "test").ok());
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_FALSE(ResolveBatch(Make(std::nullopt, kHuge, 2), 1, "test").ok());
  EXPECT_FALSE(ResolveBatch(Make(8, kHuge, kHuge), kHuge, "test").ok());
}

RC_GTEST_PROP(ResolveBatchProperty, ResultsMultiplyAndKeepWhatWasGiven, ()) {
  const auto number = [] { return *rc::gen::maybe(rc::gen::inRange<int64_t>(1, 40)); };
  const auto to_optional = [](const rc::Maybe<int64_t>& value) {
    return value ? std::optional<int64_t>(*value) : std::nullopt;
  };
  const Config config = Make(to_optional(number()), to_optional(number()), to_optional(number()));
  const int64_t dp = *rc::gen::inRange<int64_t>(1, 9);
  const Result<BatchSizes> result = ResolveBatch(config, dp, "test");
  if (!result.ok()) {
    RC_ASSERT(!result.status().message().empty());
    return;
  }
  RC_ASSERT(result->train_batch == result->micro_batch * result->accumulation * dp);
  RC_ASSERT(config.train_batch_size.value_or(result->train_batch) == result->train_batch);
  RC_ASSERT(config.micro_batch_size.value_or(result->micro_batch) == result->micro_batch);
  RC_ASSERT(config.gradient_accumulation_steps.value_or(result->accumulation) ==
            result->accumulation);
}

}  // namespace
}  // namespace shoal::config
