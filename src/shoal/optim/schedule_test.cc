#include "shoal/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "shoal/base/status.h"

namespace shoal::optim {
namespace {

TEST(Schedule, ConstantIsTheGroupsRate) {
  for (const int64_t completed : {0, 1, 1'000'000}) {
    EXPECT_EQ(LearningRate({}, 0.25, completed), 0.25);
  }
}

TEST(Schedule, LinearWarmupRisesFromTheSecondStepOn) {
  const Schedule schedule = {
      .kind = ScheduleKind::kWarmupLR, .warmup_type = WarmupType::kLinear, .warmup_num_steps = 4};
  const double expected[] = {0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0};
  for (int64_t completed = 0; completed < 7; ++completed) {
    EXPECT_EQ(LearningRate(schedule, 1.0, completed), expected[completed]) << completed;
  }
}

TEST(Schedule, LogWarmupReachesTheTopAfterItsSteps) {
  const Schedule schedule = {.kind = ScheduleKind::kWarmupLR,
                             .warmup_num_steps = 100,
                             .warmup_min_lr = 0.1,
                             .warmup_max_lr = 0.5};
  EXPECT_EQ(LearningRate(schedule, 9.0, 0), 0.1);
  EXPECT_EQ(LearningRate(schedule, 9.0, 1), 0.1);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 9.0, 10), 0.1 + 0.4 * 0.5);  // ln 10 / ln 100
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 9.0, 101), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 9.0, 5000), 0.5);
}

TEST(Schedule, DecayEndsAtTheLowestRateAndStaysThere) {
  const Schedule schedule = {.kind = ScheduleKind::kWarmupDecayLR,
                             .warmup_type = WarmupType::kLinear,
                             .warmup_num_steps = 10,
                             .total_num_steps = 30,
                             .warmup_min_lr = 0.25};
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 1.25, 11), 1.25);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 1.25, 21), 0.75);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 1.25, 31), 0.25);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 1.25, 500), 0.25);
}

TEST(Schedule, CosineMultipliesTheGroupsRate) {
  const Schedule schedule = {.kind = ScheduleKind::kWarmupCosineLR,
                             .warmup_type = WarmupType::kLinear,
                             .warmup_num_steps = 10,
                             .total_num_steps = 30,
                             .warmup_min_ratio = 0.5,
                             .cos_min_ratio = 0.1};
  EXPECT_EQ(LearningRate(schedule, 2.0, 0), 0.0);  // before the schedule starts, as in DeepSpeed
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 2.0, 1), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 2.0, 6), 1.5);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 2.0, 20), 2.0 * 0.55);  // half-way down
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 2.0, 30), 0.2);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 2.0, 31), 0.2);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 2.0, 3000), 0.2);
}

TEST(Schedule, WarmupLongerThanTheRunLeavesNoDecayWindow) {
  const Schedule decay = {.kind = ScheduleKind::kWarmupDecayLR,
                          .warmup_type = WarmupType::kLinear,
                          .warmup_num_steps = 20,
                          .total_num_steps = 10};
  EXPECT_DOUBLE_EQ(LearningRate(decay, 1.0, 11), 0.5);
  EXPECT_EQ(LearningRate(decay, 1.0, 21), 0.0);
  Schedule cosine = decay;
  cosine.kind = ScheduleKind::kWarmupCosineLR;
  EXPECT_DOUBLE_EQ(LearningRate(cosine, 1.0, 21), 1e-4);
}

TEST(Schedule, OneWarmupStepCountsAsTwo) {
  const Schedule schedule = {.kind = ScheduleKind::kWarmupLR, .warmup_num_steps = 1};
  EXPECT_EQ(LearningRate(schedule, 1.0, 1), 0.0);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 1.0, 2), 1.0);
}

TEST(Schedule, RefusesBrokenRules) {
  EXPECT_TRUE(Validate(Schedule{}).ok());
  EXPECT_EQ(Validate({.kind = ScheduleKind::kWarmupLR, .warmup_num_steps = 0}).ToString(),
            "[schedule] warmup_num_steps is 0, must be >= 1");
  EXPECT_EQ(Validate({.kind = ScheduleKind::kWarmupDecayLR}).ToString(),
            "[schedule] total_num_steps is 0, must be >= 1");
  EXPECT_EQ(Validate({.kind = ScheduleKind::kWarmupLR, .warmup_min_lr = -1.0}).ToString(),
            "[schedule] warmup_min_lr is -1, must be finite and >= 0");
  EXPECT_EQ(Validate({.kind = ScheduleKind::kWarmupLR,
                      .warmup_max_lr = std::numeric_limits<double>::infinity()})
                .ToString(),
            "[schedule] warmup_max_lr is inf, must be finite and >= 0");
  EXPECT_EQ(Validate({.kind = ScheduleKind::kWarmupCosineLR,
                      .total_num_steps = 5,
                      .cos_min_ratio = std::nan("")})
                .ToString(),
            "[schedule] cos_min_ratio is nan, must be finite and >= 0");
}

}  // namespace
}  // namespace shoal::optim
