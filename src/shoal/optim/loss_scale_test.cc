#include "shoal/optim/loss_scale.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "shoal/base/status.h"

namespace shoal::optim {
namespace {

// Feeds `count` updates of one kind; all must be accepted.
void Feed(LossScaler& scaler, bool overflow, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const Status status = scaler.Update(overflow);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(LossScaler, StartsAtTheInitialPower) {
  EXPECT_EQ(LossScaler(LossScaleOptions{}).scale(), 65536.0);
  EXPECT_EQ(LossScaler({.initial_scale_power = 0}).scale(), 1.0);
}

TEST(LossScaler, StaticScaleNeverChanges) {
  LossScaler scaler({.loss_scale = 128.0, .loss_scale_window = 1});
  Feed(scaler, true, 5);
  Feed(scaler, false, 5);
  EXPECT_EQ(scaler.scale(), 128.0);
  EXPECT_FALSE(scaler.is_dynamic());
}

TEST(LossScaler, FirstOverflowsCostHysteresisOnly) {
  LossScaler scaler({.hysteresis = 3});
  Feed(scaler, true, 2);
  EXPECT_EQ(scaler.scale(), 65536.0);
  Feed(scaler, true, 1);
  EXPECT_EQ(scaler.scale(), 32768.0);
  Feed(scaler, true, 1);
  EXPECT_EQ(scaler.scale(), 16384.0);
}

TEST(LossScaler, DoublesAfterAWindowOfGoodUpdates) {
  LossScaler scaler({.initial_scale_power = 4, .loss_scale_window = 3});
  Feed(scaler, false, 3);
  EXPECT_EQ(scaler.scale(), 16.0);
  Feed(scaler, false, 1);
  EXPECT_EQ(scaler.scale(), 32.0);
  Feed(scaler, false, 3);
  EXPECT_EQ(scaler.scale(), 64.0);
}

TEST(LossScaler, AnOverflowRestartsTheWindow) {
  LossScaler scaler({.initial_scale_power = 4, .loss_scale_window = 3, .hysteresis = 2});
  Feed(scaler, false, 3);
  Feed(scaler, true, 1);
  Feed(scaler, false, 3);
  EXPECT_EQ(scaler.scale(), 16.0);
  Feed(scaler, false, 1);
  EXPECT_EQ(scaler.scale(), 32.0);
}

TEST(LossScaler, GrowthRefillsHysteresis) {
  LossScaler scaler({.initial_scale_power = 4, .loss_scale_window = 2, .hysteresis = 2});
  Feed(scaler, true, 1);
  EXPECT_EQ(scaler.state().hysteresis, 1);
  Feed(scaler, false, 2);
  EXPECT_EQ(scaler.state().hysteresis, 1);
  Feed(scaler, false, 1);
  EXPECT_EQ(scaler.state().hysteresis, 2);
}

TEST(LossScaler, ConsecutiveHysteresisIsRefilledByEachGoodUpdate) {
  LossScaler scaler({.hysteresis = 2, .consecutive_hysteresis = true});
  for (int i = 0; i < 10; ++i) {
    Feed(scaler, true, 1);
    Feed(scaler, false, 1);
  }
  EXPECT_EQ(scaler.scale(), 65536.0);
}

TEST(LossScaler, OverflowAtTheSmallestScaleIsAnError) {
  LossScaler scaler({.initial_scale_power = 3, .hysteresis = 1, .min_loss_scale = 3.0});
  Feed(scaler, true, 1);
  EXPECT_EQ(scaler.scale(), 4.0);
  Feed(scaler, true, 1);
  EXPECT_EQ(scaler.scale(), 3.0);
  const LossScaleState before = scaler.state();
  const Status status = scaler.Update(true);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("min_loss_scale is 3"), std::string::npos);
  EXPECT_EQ(scaler.state(), before);
}

TEST(LossScaler, ContinuesFromItsState) {
  const LossScaleOptions options = {.loss_scale_window = 4, .hysteresis = 2};
  LossScaler straight(options);
  LossScaler first(options);
  const auto overflows = [](int i) { return i % 7 == 3; };
  for (int i = 0; i < 40; ++i) Feed(straight, overflows(i), 1);
  for (int i = 0; i < 19; ++i) Feed(first, overflows(i), 1);
  LossScaler resumed(options);
  ASSERT_TRUE(resumed.SetState(first.state()).ok());
  for (int i = 19; i < 40; ++i) Feed(resumed, overflows(i), 1);
  EXPECT_EQ(resumed.state(), straight.state());
}

TEST(LossScaler, StaticScalerKeepsItsScaleWhenStateIsLoaded) {
  LossScaler scaler({.loss_scale = 8.0});
  ASSERT_TRUE(scaler.SetState({.scale = 1024.0, .num_updates = 3}).ok());
  EXPECT_EQ(scaler.scale(), 8.0);
}

TEST(LossScaler, RefusesBrokenRules) {
  const auto text = [](const LossScaleOptions& options) { return Validate(options).ToString(); };
  EXPECT_EQ(text({}), "ok");
  EXPECT_EQ(text({.loss_scale = -1.0}), "[loss scale] loss_scale is -1, must be finite and >= 0");
  EXPECT_EQ(text({.initial_scale_power = 127}),
            "[loss scale] initial_scale_power is 127, must be in 0..126");
  EXPECT_EQ(text({.loss_scale_window = 0}), "[loss scale] loss_scale_window is 0, must be >= 1");
  EXPECT_EQ(text({.hysteresis = 0}), "[loss scale] hysteresis is 0, must be >= 1");
  EXPECT_EQ(text({.min_loss_scale = 0.0}),
            "[loss scale] min_loss_scale is 0, must be finite and > 0");
  LossScaler scaler(LossScaleOptions{});
  EXPECT_EQ(scaler.SetState({.scale = 2.0, .num_updates = 5, .last_overflow = 5}).ToString(),
            "[loss scale] last_overflow is 5, must be in -1..num_updates-1 (4)");
  EXPECT_EQ(scaler.SetState({.scale = 0.0}).ToString(),
            "[loss scale] scale is 0, must be finite and > 0");
  EXPECT_EQ(scaler.state(), LossScaler(LossScaleOptions{}).state());
}

}  // namespace
}  // namespace shoal::optim
