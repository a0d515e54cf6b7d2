#include "shoal/plan/arena_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <rapidcheck.h>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/plan/unit_packer.h"

namespace shoal::plan {
namespace {

using Classes = std::vector<SizeClass>;

std::vector<UnitMemory> Gpt() {
  return {{"embedding", 4096, 4096}, {"layers.0", 1024, 2048}, {"layers.1", 1024, 2048},
          {"layers.2", 1024, 2048},  {"head", 4096, 0},        {"empty", 0, 0}};
}

ArenaPlan Plan(const std::vector<UnitMemory>& units, const ArenaOptions& options) {
  return PlanArena(units, options).value();
}

TEST(PlanArenaTest, EqualUnitsShareAClassWithOneSlotMoreThanThePrefetchDepth) {
  const ArenaPlan plan = Plan(Gpt(), {.zero_stage = 3, .prefetch_depth = 1});
  EXPECT_EQ(plan.param_classes, (Classes{{4096, 2, 2}, {1024, 2, 3}}));
  EXPECT_EQ(plan.grad_classes, (Classes{{4096, 1, 1}, {2048, 2, 3}}));
  EXPECT_EQ(plan.param_class_of_unit, (std::vector<int64_t>{0, 1, 1, 1, 0, -1}));
  EXPECT_EQ(plan.grad_class_of_unit, (std::vector<int64_t>{0, 1, 1, 1, -1, -1}));
  EXPECT_EQ(plan.param_bytes, 10240);
  EXPECT_EQ(plan.grad_bytes, 8192);
  EXPECT_EQ(plan.total_bytes(), 18432);
}

TEST(PlanArenaTest, AClassNeverHasMoreSlotsThanUnits) {
  const ArenaPlan plan =
      Plan(Gpt(), {.prefetch_depth = std::numeric_limits<int64_t>::max(), .grad_slots = 100});
  EXPECT_EQ(plan.param_classes, (Classes{{4096, 2, 2}, {1024, 3, 3}}));
  EXPECT_EQ(plan.grad_classes, (Classes{{4096, 1, 1}, {2048, 3, 3}}));
}

TEST(PlanArenaTest, WithoutPrefetchOneSlotIsEnough) {
  EXPECT_EQ(Plan(Gpt(), {.prefetch_depth = 0}).param_classes,
            (Classes{{4096, 1, 2}, {1024, 1, 3}}));
}

TEST(PlanArenaTest, StagesBelowThreeNeedNoParameterSlots) {
  for (const int stage : {0, 1, 2}) {
    const ArenaPlan plan = Plan(Gpt(), {.zero_stage = stage});
    EXPECT_TRUE(plan.param_classes.empty());
    EXPECT_EQ(plan.param_class_of_unit, std::vector<int64_t>(6, -1));
    EXPECT_EQ(plan.total_bytes(), 8192);
  }
}

TEST(PlanArenaTest, UnreducedGradientsKeepASlotPerUnit) {
  const ArenaPlan plan = Plan(Gpt(), {.zero_stage = 1, .keep_unreduced_gradients = true});
  EXPECT_EQ(plan.grad_classes, (Classes{{4096, 1, 1}, {2048, 3, 3}}));
}

TEST(PlanArenaTest, NoUnitsNeedNothing) { EXPECT_EQ(Plan({}, {}), ArenaPlan()); }

TEST(PlanArenaTest, PrintsClassesSlotsBytesAndTotal) {
  EXPECT_EQ(Plan(Gpt(), {}).ToString(),
            "arena       units  slots       slot bytes            bytes\n"
            "params          2      2             4096             8192\n"
            "params          3      2             1024             2048\n"
            "gradients       1      1             4096             4096\n"
            "gradients       3      2             2048             4096\n"
            "total                                                18432\n");
}

TEST(PlanArenaTest, BadArgumentsAreNamed) {
  EXPECT_EQ(PlanArena(Gpt(), {.zero_stage = 4}).status().ToString(),
            "[plan_arena] zero_stage is 4, must be 0, 1, 2 or 3");
  EXPECT_EQ(PlanArena(Gpt(), {.prefetch_depth = -1}).status().ToString(),
            "[plan_arena] prefetch_depth is -1, must be >= 0");
  EXPECT_EQ(PlanArena(Gpt(), {.grad_slots = 0}).status().ToString(),
            "[plan_arena] grad_slots is 0, must be >= 1");
  EXPECT_EQ(PlanArena(std::vector<UnitMemory>{{"head", -4, 0}}, {}).status().ToString(),
            "[plan_arena] unit 'head' has param_bytes -4 and grad_bytes 0, must be >= 0");
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_FALSE(PlanArena(std::vector<UnitMemory>{{"a", kHuge, 0}, {"b", kHuge, 0}}, {}).ok());
  EXPECT_FALSE(PlanArena(std::vector<UnitMemory>{{"a", kHuge, kHuge}}, {}).ok());
}

TEST(GradientBytesTest, CountsTrainableSegmentsInTheReduceDtypeAligned) {
  const std::vector<ParamSpec> params = {{"a", 100, DType::kBFloat16, true},
                                         {"frozen", 5000, DType::kBFloat16, false},
                                         {"b", 10, DType::kFloat32, true}};
  const UnitLayout layout = PackUnit(params, {.num_ranks = 2}).value();
  ASSERT_EQ(layout.segments[0].numel, 128);
  ASSERT_EQ(layout.segments[2].numel, 32);
  EXPECT_EQ(GradientBytes(layout, DType::kFloat32), 512 + 256);
  EXPECT_EQ(GradientBytes(layout, DType::kBFloat16), 256 + 256);
  EXPECT_EQ(GradientOffsets(layout, DType::kFloat32), (std::vector<int64_t>{0, -1, 512}));
}

RC_GTEST_PROP(PlanArenaProperty, EveryUnitFitsTheSlotsOfItsClass, ()) {
  std::vector<UnitMemory> units;
  const int count = *rc::gen::inRange(0, 20);
  for (int i = 0; i < count; ++i) {
    units.push_back(
        {"u", 256 * *rc::gen::inRange<int64_t>(0, 4), 256 * *rc::gen::inRange<int64_t>(0, 4)});
  }
  const ArenaPlan plan = Plan(units, {.prefetch_depth = *rc::gen::inRange<int64_t>(0, 5)});
  int64_t bytes = 0;
  for (const Classes& classes : {plan.param_classes, plan.grad_classes}) {
    for (const SizeClass& c : classes) {
      RC_ASSERT(c.num_slots >= 1);
      RC_ASSERT(c.num_slots <= c.num_units);
      bytes += c.num_slots * c.slot_bytes;
    }
  }
  RC_ASSERT(bytes == plan.total_bytes());
  for (size_t i = 0; i < units.size(); ++i) {
    const int64_t params = plan.param_class_of_unit[i];
    const int64_t grads = plan.grad_class_of_unit[i];
    RC_ASSERT((params == -1) == (units[i].param_bytes == 0));
    RC_ASSERT((grads == -1) == (units[i].grad_bytes == 0));
    if (params >= 0) RC_ASSERT(plan.param_classes[params].slot_bytes == units[i].param_bytes);
    if (grads >= 0) RC_ASSERT(plan.grad_classes[grads].slot_bytes == units[i].grad_bytes);
  }
}

}  // namespace
}  // namespace shoal::plan
