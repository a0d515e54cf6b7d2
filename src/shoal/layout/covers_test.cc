#include "shoal/layout/covers.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <rapidcheck.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/layout/layout.h"
#include "shoal/layout/shard.h"
#include "shoal/layout/shards_for_test_internal.h"
#include "shoal/layout/split.h"
#include "shoal/layout/tensor_spec.h"

namespace shoal::layout {
namespace {

using testing::AnyShape;
using testing::AnyShard;
using testing::ElementsOf;

TensorSpec Spec(std::vector<int64_t> shape) { return {"w", std::move(shape), DType::kFloat32}; }

TEST(CoversTest, ZeroInsideTensorParallelCoversOnce) {
  const TensorSpec spec = Spec({10, 7});
  std::vector<Shard> shards;
  for (int64_t tp = 0; tp < 3; ++tp) {
    const Box box = SplitDim(WholeTensor(spec.shape), 0, tp, 3).value();
    for (int64_t dp = 0; dp < 4; ++dp) shards.push_back(SplitFlat(box, dp, 4).value());
  }
  EXPECT_TRUE(Covers(spec, shards).ok()) << Covers(spec, shards).ToString();
  shards.pop_back();
  EXPECT_EQ(Covers(spec, shards).ToString(),
            "[covers] element [9,5] of w[10,7]:float32 is held less than 1 time");
}

TEST(CoversTest, ReplicasAreCounted) {
  const TensorSpec spec = Spec({6});
  const Shard whole = WholeBox(WholeTensor(spec.shape));
  EXPECT_TRUE(Covers(spec, std::vector<Shard>{whole, whole}, 2).ok());
  EXPECT_EQ(Covers(spec, std::vector<Shard>{whole, whole}).ToString(),
            "[covers] element [0] of w[6]:float32 is held more than 1 time");
  EXPECT_EQ(Covers(spec, std::vector<Shard>{whole, {whole.box, {0, 4}}}, 2).ToString(),
            "[covers] element [4] of w[6]:float32 is held less than 2 times");
}

TEST(CoversTest, EmptyAndZeroDimTensors) {
  EXPECT_TRUE(Covers(Spec({0, 3}), {}).ok());
  EXPECT_FALSE(Covers(Spec({}), {}).ok());
  EXPECT_TRUE(Covers(Spec({}), std::vector<Shard>{WholeBox(Box{})}).ok());
}

TEST(CoversTest, ALayoutIsCheckedTensorByTensor) {
  const Shard whole = WholeBox({{{0, 4}}});
  const TensorLayout replicated{Spec({4}), 2, {{whole}, {whole}}};
  TensorLayout sharded{Spec({4}), 1, {{{whole.box, {0, 3}}}, {{whole.box, {3, 4}}}}};
  sharded.spec.name = "v";
  EXPECT_TRUE(Covers(Layout::Make({0, 1}, {replicated, sharded}).value()).ok());
  sharded.shards[1].clear();
  EXPECT_EQ(Covers(Layout::Make({0, 1}, {replicated, sharded}).value()).ToString(),
            "[covers] element [3] of v[4]:float32 is held less than 1 time");
}

RC_GTEST_PROP(CoversProperty, AgreesWithCounting, ()) {
  const std::vector<int64_t> shape = AnyShape();
  const int64_t replicas = *rc::gen::inRange<int64_t>(1, 4);
  std::vector<Shard> shards;
  for (int64_t i = 0; i < replicas; ++i) {  // mostly right, so that both answers occur
    const int64_t count = *rc::gen::inRange<int64_t>(1, 4);
    for (int64_t j = 0; j < count; ++j) {
      shards.push_back(SplitFlat(WholeTensor(shape), j, count).value());
    }
  }
  if (*rc::gen::inRange(0, 2) == 0) shards.push_back(AnyShard(shape));
  if (*rc::gen::inRange(0, 2) == 0) {
    shards.erase(shards.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(shards)));
  }
  std::vector<int64_t> counts(static_cast<size_t>(WholeTensor(shape).numel()), 0);
  for (const Shard& shard : shards) {
    for (const int64_t element : ElementsOf(shard, shape)) ++counts[static_cast<size_t>(element)];
  }
  const bool expected = std::all_of(counts.begin(), counts.end(),
                                    [replicas](int64_t count) { return count == replicas; });
  RC_CLASSIFY(expected);
  RC_ASSERT(Covers(Spec(shape), shards, replicas).ok() == expected);
}

}  // namespace
}  // namespace shoal::layout
