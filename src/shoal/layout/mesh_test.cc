#include "shoal/layout/mesh.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <rapidcheck.h>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/status.h"

namespace shoal::layout {
namespace {

using Groups = std::vector<std::vector<int64_t>>;

MeshSpec Spec(std::vector<int64_t> dp, int64_t tp = 1) {
  MeshSpec spec;
  spec.dp = std::move(dp);
  spec.tp = tp;
  return spec;
}

Mesh MakeMesh(const MeshSpec& spec, int64_t world_size) {
  return Mesh::Make(spec, world_size).value();
}

std::string ErrorOf(const MeshSpec& spec, int64_t world_size) {
  return Mesh::Make(spec, world_size).status().ToString();
}

TEST(MeshTest, TpRanksAreNeighbours) {
  const Mesh mesh = MakeMesh(Spec({4}, 2), 8);
  EXPECT_EQ(*mesh.Slice("tp"), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(*mesh.Slice("dp"), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(*mesh.Slice("pp"), (Groups{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}));
  EXPECT_EQ(*mesh.Slice("ep"), *mesh.Slice("pp"));
}

TEST(MeshTest, TheLevelsOfDpComposeToDp) {
  const Mesh mesh = MakeMesh(Spec({2, 3}, 2), 12);
  EXPECT_TRUE(mesh.is_hybrid());
  EXPECT_EQ(*mesh.Slice("dp_shard"), (Groups{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}}));
  EXPECT_EQ(*mesh.Slice("dp_replicate"),
            (Groups{{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}}));
  EXPECT_EQ(*mesh.Slice("dp"), (Groups{{0, 2, 4, 6, 8, 10}, {1, 3, 5, 7, 9, 11}}));
}

TEST(MeshTest, AOneLevelDpIsAllShard) {
  const Mesh mesh = MakeMesh(Spec({4}), 4);
  EXPECT_FALSE(mesh.is_hybrid());
  EXPECT_EQ(*mesh.Slice("dp_shard"), *mesh.Slice("dp"));
  EXPECT_EQ(*mesh.AxisSize("dp_replicate"), 1);
}

TEST(MeshTest, DpLeftOutTakesTheRest) {
  EXPECT_EQ(*MakeMesh(Spec({}, 2), 6).AxisSize("dp"), 3);
  EXPECT_EQ(*MakeMesh(Spec({}), 1).AxisSize("dp"), 1);
}

TEST(MeshTest, ExplicitRanksKeepTheirOrderAndMayBePartOfTheWorld) {
  MeshSpec spec = Spec({2}, 2);
  spec.ranks = {7, 5, 3, 1};
  const Mesh mesh = MakeMesh(spec, 8);
  EXPECT_EQ(*mesh.Slice("tp"), (Groups{{7, 5}, {3, 1}}));
  EXPECT_EQ(*mesh.GroupOf("dp", 1), (std::vector<int64_t>{5, 1}));
  EXPECT_TRUE(mesh.Contains(3));
  EXPECT_FALSE(mesh.Contains(0));
  EXPECT_EQ(mesh.GroupOf("dp", 0).status().ToString(),
            "[mesh] rank 0 is not in the mesh dp=2,tp=2@[7,5,3,1]");
  EXPECT_EQ(mesh.CoordinatesOf(0).status().code(), StatusCode::kInvalidArgument);
}

TEST(MeshTest, PrintsAxesAboveOneAndRanksThatAreNotTheFirst) {
  EXPECT_EQ(MakeMesh(Spec({4}, 2), 8).ToString(), "dp=4,tp=2");
  EXPECT_EQ(MakeMesh(Spec({2, 4}), 8).ToString(), "dp=(2,4)");
  EXPECT_EQ(MakeMesh(Spec({}), 1).ToString(), "dp=1");
  EXPECT_EQ(MakeMesh(Spec({}, 2), 2).ToString(), "tp=2");
  MeshSpec spec = Spec({2});
  spec.ranks = {4, 6};
  EXPECT_EQ(MakeMesh(spec, 8).ToString(), "dp=2@[4,6]");
  spec.ranks = {0, 1};
  EXPECT_EQ(MakeMesh(spec, 8).ToString(), "dp=2");
}

TEST(MeshTest, EqualityLooksAtAxesAndRanks) {
  EXPECT_EQ(MakeMesh(Spec({4}), 4), MakeMesh(Spec({}), 4));
  EXPECT_NE(MakeMesh(Spec({4}), 4), MakeMesh(Spec({2}, 2), 4));
  EXPECT_NE(MakeMesh(Spec({4}), 4), MakeMesh(Spec({1, 4}), 4));
  MeshSpec reversed = Spec({4});
  reversed.ranks = {3, 2, 1, 0};
  EXPECT_NE(MakeMesh(Spec({4}), 4), MakeMesh(reversed, 4));
}

TEST(MeshTest, CoordinatesNameEveryAxis) {
  const Mesh mesh = MakeMesh(Spec({2, 3}, 2), 12);
  EXPECT_EQ(*mesh.CoordinatesOf(9),
            (std::vector<AxisValue>{
                {"pp", 0}, {"dp_replicate", 1}, {"dp_shard", 1}, {"sp", 0}, {"tp", 1}}));
}

TEST(MeshTest, SizesThatDoNotFitTheWorldAreRefused) {
  EXPECT_EQ(ErrorOf(Spec({4}, 2), 6),
            "[mesh] the axes multiply to 8, not to the world size 6 "
            "(mesh pp=1,dp=4,ep=1,sp=1,tp=2)");
  EXPECT_EQ(ErrorOf(Spec({}, 4), 6),
            "[mesh] pp*sp*tp is 4, does not divide the world size 6 "
            "(mesh pp=1,dp=?,ep=1,sp=1,tp=4)");
  EXPECT_EQ(ErrorOf(Spec({}, 4), 2).find("[mesh] pp*sp*tp is 4, does not divide"), 0U);
  MeshSpec spec = Spec({4});
  spec.ranks = {0, 1};
  EXPECT_EQ(ErrorOf(spec, 4),
            "[mesh] the axes multiply to 4, not to the number of ranks given, 2 "
            "(mesh pp=1,dp=4,ep=1,sp=1,tp=1)");
  EXPECT_EQ(Mesh::Make(Spec({INT64_MAX}, INT64_MAX), 4).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(MeshTest, BadRanksAreRefused) {
  MeshSpec spec;
  spec.ranks = {0, 1, 0};
  EXPECT_EQ(ErrorOf(spec, 4), "[mesh] ranks has 0 twice, must be distinct");
  spec.ranks = {0, 4};
  EXPECT_EQ(ErrorOf(spec, 4), "[mesh] ranks has 4, must be in 0..3 (world size 4)");
  spec.ranks = {-1};
  EXPECT_EQ(ErrorOf(spec, 4), "[mesh] ranks has -1, must be in 0..3 (world size 4)");
  spec.ranks = std::vector<int64_t>();
  EXPECT_EQ(ErrorOf(spec, 4), "[mesh] ranks is empty, must hold at least one rank");
  EXPECT_EQ(ErrorOf(Spec({}), 0), "[mesh] world size is 0, must be in 1..1048576");
  EXPECT_EQ(ErrorOf(Spec({}), int64_t{1} << 40).find("[mesh] world size is 1099511627776"), 0U);
}

TEST(MeshTest, SizesBelowOneAndTooManyLevelsAreRefused) {
  EXPECT_EQ(ErrorOf(Spec({0}), 4), "[mesh] axis \"dp\" has size 0, must be >= 1");
  EXPECT_EQ(ErrorOf(Spec({2, -2}), 4), "[mesh] axis \"dp\" has size -2, must be >= 1");
  EXPECT_EQ(ErrorOf(Spec({}, 0), 4), "[mesh] axis \"tp\" has size 0, must be >= 1");
  EXPECT_EQ(ErrorOf(Spec({1, 2, 2}), 4),
            "[mesh] axis \"dp\" has 3 levels, must be a size or (replicate, shard)");
}

TEST(MeshTest, AxesThatAreNotImplementedAreUnsupportedByName) {
  MeshSpec pp;
  pp.pp = 2;
  MeshSpec ep;
  ep.ep = 2;
  MeshSpec sp;
  sp.sp = 4;
  for (const auto& [spec, text] :
       {std::pair{pp, "axis \"pp\" has size 2"}, std::pair{ep, "axis \"ep\" has size 2"},
        std::pair{sp, "axis \"sp\" has size 4"}}) {
    const Status status = Mesh::Make(spec, 4).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.ToString();
  }
}

TEST(MeshTest, EpMustDivideDp) {
  MeshSpec spec = Spec({4});
  spec.ep = 3;
  EXPECT_EQ(ErrorOf(spec, 4),
            "[mesh] axis \"ep\" has size 3, does not divide dp, which has size 4");
}

TEST(MeshTest, UnknownAxesAreRefused) {
  const Mesh mesh = MakeMesh(Spec({2}), 2);
  const std::string text =
      "[mesh] unknown axis \"DP\", must be one of pp, dp, dp_replicate, dp_shard, ep, sp, tp "
      "(mesh dp=2)";
  EXPECT_EQ(mesh.Slice("DP").status().ToString(), text);
  EXPECT_EQ(mesh.AxisSize("DP").status().ToString(), text);
  EXPECT_EQ(mesh.GroupOf("DP", 0).status().ToString(), text);
}

RC_GTEST_PROP(MeshProperty, EverySliceHoldsEveryRankOnceAndVariesAlongItsAxisOnly, ()) {
  const int64_t replicate = *rc::gen::inRange<int64_t>(1, 4);
  const int64_t shard = *rc::gen::inRange<int64_t>(1, 5);
  const int64_t tp = *rc::gen::inRange<int64_t>(1, 4);
  const Mesh mesh = MakeMesh(Spec({replicate, shard}, tp), replicate * shard * tp);
  for (const std::string_view axis : {"pp", "dp_replicate", "dp_shard", "dp", "sp", "tp"}) {
    std::vector<int> seen(static_cast<size_t>(mesh.size()), 0);
    for (const std::vector<int64_t>& group : *mesh.Slice(axis)) {
      RC_ASSERT(static_cast<int64_t>(group.size()) == *mesh.AxisSize(axis));
      const std::vector<AxisValue> first = *mesh.CoordinatesOf(group[0]);
      for (size_t i = 0; i < group.size(); ++i) {
        ++seen[static_cast<size_t>(group[i])];
        const std::vector<AxisValue> here = *mesh.CoordinatesOf(group[i]);
        for (size_t level = 0; level < here.size(); ++level) {
          if (!here[level].axis.starts_with(axis)) RC_ASSERT(here[level] == first[level]);
        }
        RC_ASSERT(*mesh.GroupOf(axis, group[i]) == group);
      }
    }
    for (const int count : seen) RC_ASSERT(count == 1);
  }
}

}  // namespace
}  // namespace shoal::layout
