#include "shoal/layout/layout.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/layout/shard.h"
#include "shoal/layout/tensor_spec.h"

namespace shoal::layout {
namespace {

TensorLayout Rows(std::string name = "w") {
  return {{std::move(name), {4, 8}, DType::kFloat32},
          1,
          {{WholeBox({{{0, 2}, {0, 8}}})}, {WholeBox({{{2, 4}, {0, 8}}})}}};
}

std::string ErrorOf(std::vector<int64_t> ranks, std::vector<TensorLayout> tensors) {
  return Layout::Make(std::move(ranks), std::move(tensors)).status().ToString();
}

TEST(LayoutTest, FindsTensorsAndRanks) {
  const Layout layout = Layout::Make({4, 7}, {Rows(), Rows("v")}).value();
  ASSERT_NE(layout.Find("v"), nullptr);
  EXPECT_EQ(layout.Find("v")->spec.name, "v");
  EXPECT_EQ(layout.Find("x"), nullptr);
  EXPECT_EQ(layout.IndexOf(7), 1);
  EXPECT_EQ(layout.IndexOf(0), -1);
}

TEST(LayoutTest, PrintsTensorsRanksAndShards) {
  TensorLayout replicated{{"b", {}, DType::kBFloat16}, 2, {{WholeBox(Box{})}, {WholeBox(Box{})}}};
  TensorLayout parts = Rows("p");
  parts.shards[0] = {Shard{{{{0, 2}, {0, 8}}}, {0, 3}}, WholeBox({{{3, 4}, {0, 8}}})};
  parts.shards[1] = {};
  EXPECT_EQ(Layout::Make({0, 1}, {Rows(), replicated, parts})->ToString(),
            "w[4,8]:float32 0:[0:2,0:8] 1:[2:4,0:8]\n"
            "b[]:bfloat16 x2 0:[] 1:[]\n"
            "p[4,8]:float32 0:[0:2,0:8]{0:3}+[3:4,0:8] 1:-\n");
}

TEST(LayoutTest, EqualityIsOfTheWriting) {
  EXPECT_EQ(*Layout::Make({0, 1}, {Rows()}), *Layout::Make({0, 1}, {Rows()}));
  EXPECT_NE(*Layout::Make({0, 1}, {Rows()}), *Layout::Make({1, 0}, {Rows()}));
}

TEST(LayoutTest, ContradictionsNameTensorAndRank) {
  EXPECT_EQ(ErrorOf({1, 1}, {Rows()}), "[layout] rank 1 is repeated, must be distinct");
  EXPECT_EQ(ErrorOf({0, 1}, {Rows(), Rows()}), "[layout] tensor 'w' is repeated, must be distinct");
  EXPECT_EQ(ErrorOf({0, 1, 2}, {Rows()}), "[layout] tensor 'w' has shards for 2 ranks, must be 3");
  TensorLayout tensor = Rows();
  tensor.replicas = 3;
  EXPECT_EQ(ErrorOf({0, 1}, {tensor}), "[layout] tensor 'w' has 3 replicas, must be in 1..2");
  tensor = Rows();
  tensor.shards[1].push_back({{{{2, 4}, {4, 8}}}, {0, 1}});
  EXPECT_EQ(ErrorOf({0, 5}, {tensor}),
            "[layout] shards [2:4,0:8] and [2:4,4:8]{0:1} overlap (tensor 'w' on rank 5)");
  tensor = Rows();
  tensor.shards[1][0].box.dims[0].end = 5;
  EXPECT_EQ(ErrorOf({0, 5}, {tensor}),
            "[shard] [2:5,0:8]{0:16} is not inside a tensor of shape [4,8]: the range of dim 0 "
            "(tensor 'w' on rank 5)");
}

TEST(LayoutTest, ShapesThatCannotBeAreRefused) {
  TensorLayout tensor = Rows();
  tensor.spec.shape = {-4, 8};
  EXPECT_NE(ErrorOf({0, 1}, {tensor}).find("has shape [-4,8]"), std::string::npos);
  tensor.spec.shape = {INT64_MAX, 2, 0};
  EXPECT_NE(ErrorOf({0, 1}, {tensor}).find("exceed int64 elements"), std::string::npos);
}

TEST(TensorSpecTest, CountsAndPrints) {
  EXPECT_EQ((TensorSpec{"w", {4, 8}, DType::kBFloat16}).ToString(), "w[4,8]:bfloat16");
  EXPECT_EQ((TensorSpec{"w", {4, 8}, DType::kBFloat16}).numel(), 32);
  EXPECT_EQ((TensorSpec{"s", {}, DType::kBFloat16}).numel(), 1);
  EXPECT_EQ((TensorSpec{"e", {4, 0}, DType::kBFloat16}).numel(), 0);
}

}  // namespace
}  // namespace shoal::layout
