#include "shoal/plan/memory_model.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/plan/arena_plan.h"
#include "shoal/plan/unit_packer.h"

namespace shoal::plan {
namespace {

constexpr int64_t kParams = 1 << 20;
constexpr int64_t kRanks = 4;

std::vector<UnitLayout> Units(DType dtype = DType::kBFloat16, bool trainable = true,
                              int64_t numel = kParams / 2) {
  const std::vector<ParamSpec> params = {{"w", numel, dtype, trainable}};
  return {2, PackUnit(params, {.num_ranks = kRanks}).value()};
}

MemoryModel Model(const std::vector<UnitLayout>& units, MemoryOptions options,
                  const ArenaPlan& arena = {}) {
  options.num_ranks = kRanks;
  return ModelMemory(units, arena, options).value();
}

TEST(ModelMemoryTest, StageThreeAdamInBf16Needs2And4And8BytesPerParameterOverRanks) {
  const MemoryModel model = Model(Units(), {.zero_stage = 3});
  EXPECT_EQ(model.params, 2 * kParams / kRanks);
  EXPECT_EQ(model.master, 4 * kParams / kRanks);
  EXPECT_EQ(model.state, 8 * kParams / kRanks);
  EXPECT_EQ(model.gradients, 2 * kParams / kRanks);
  EXPECT_EQ(model.padding, 0);
  EXPECT_EQ(model.persistent(), 14 * kParams / kRanks);
}

TEST(ModelMemoryTest, AccumulationKeepsGradientsInTheAccumulateDtype) {
  EXPECT_EQ(Model(Units(), {.zero_stage = 3, .accumulation_steps = 4}).gradients,
            4 * kParams / kRanks);
}

TEST(ModelMemoryTest, EachStageShardsOneThingMore) {
  const auto at = [](int stage) { return Model(Units(), {.zero_stage = stage}); };
  const MemoryModel full{
      .params = 2 * kParams, .master = 4 * kParams, .state = 8 * kParams, .gradients = 2 * kParams};
  MemoryModel expected = full;
  EXPECT_EQ(at(0), expected);
  expected.master /= kRanks;
  expected.state /= kRanks;
  EXPECT_EQ(at(1), expected);
  expected.gradients /= kRanks;
  EXPECT_EQ(at(2), expected);
  expected.params /= kRanks;
  EXPECT_EQ(at(3), expected);
}

TEST(ModelMemoryTest, ParametersInTheMasterDtypeAreTheirOwnMasters) {
  const MemoryModel model = Model(Units(DType::kFloat32), {.zero_stage = 2});
  EXPECT_EQ(model.master, 0);
  EXPECT_EQ(model.params, 4 * kParams);
}

TEST(ModelMemoryTest, FrozenParametersNeedNothingElse) {
  const MemoryModel model = Model(Units(DType::kBFloat16, false), {.zero_stage = 3});
  EXPECT_EQ(model.params, 2 * kParams / kRanks);
  EXPECT_EQ(model.total(), model.params);
}

TEST(ModelMemoryTest, NumberOfStatesFollowsTheOptimizer) {
  EXPECT_EQ(Model(Units(), {.num_states = 0}).state, 0);
  EXPECT_EQ(Model(Units(), {.state_dtype = DType::kFloat64, .num_states = 1}).state,
            8 * kParams / kRanks);
}

TEST(ModelMemoryTest, PaddingIsTheShareOfElementsThatNoParameterUses) {
  const std::vector<UnitLayout> units = Units(DType::kBFloat16, true, 96);  // of 128 with 4 ranks
  ASSERT_EQ(units[0].segments[0].numel, 128);
  // Two units, 8 unused elements per rank, 2 + 4 + 8 + 2 bytes each.
  EXPECT_EQ(Model(units, {.zero_stage = 3}).padding, 2 * 8 * 16);
  EXPECT_EQ(Model(units, {.zero_stage = 0}).padding, 2 * 32 * 16);
}

TEST(ModelMemoryTest, TheArenaIsAddedAsPlanned) {
  const ArenaPlan arena = PlanArena(std::vector<UnitMemory>{{"u", 1024, 512}}, {}).value();
  const MemoryModel model = Model({}, {}, arena);
  EXPECT_EQ(model.arena, 1536);
  EXPECT_EQ(model.total(), 1536);
}

TEST(ModelMemoryTest, PrintsKindsAndTotal) {
  const MemoryModel model{
      .params = 2, .master = 4, .state = 8, .gradients = 16, .arena = 32, .padding = 1};
  EXPECT_EQ(model.ToString(),
            "memory                  bytes\n"
            "params                      2\n"
            "master                      4\n"
            "state                       8\n"
            "gradients                  16\n"
            "arena                      32\n"
            "total                      62\n"
            "(padding)                   1\n");
}

TEST(ModelMemoryTest, BadArgumentsAreNamed) {
  const auto error = [](const MemoryOptions& options) {
    return ModelMemory(Units(), {}, options).status().ToString();
  };
  EXPECT_EQ(error({.zero_stage = -1}), "[memory_model] zero_stage is -1, must be 0, 1, 2 or 3");
  EXPECT_EQ(error({.num_ranks = 0}), "[memory_model] num_ranks is 0, must be >= 1");
  EXPECT_EQ(error({.num_ranks = kRanks, .num_states = -1}),
            "[memory_model] num_states is -1, must be >= 0");
  EXPECT_EQ(error({.num_ranks = kRanks, .accumulation_steps = 0}),
            "[memory_model] accumulation_steps is 0, must be >= 1");
  EXPECT_EQ(error({.num_ranks = 3}),
            "[memory_model] a segment of 524288 elements in pieces of 131072 was not packed for "
            "num_ranks=3");
}

}  // namespace
}  // namespace shoal::plan
