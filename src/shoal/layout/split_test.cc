#include "shoal/layout/split.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <rapidcheck.h>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/layout/shard.h"
#include "shoal/layout/shards_for_test_internal.h"

namespace shoal::layout {
namespace {

using testing::AnyShape;
using testing::AnyShard;
using testing::ElementsOf;

using Shape = std::vector<int64_t>;

TEST(SplitDimTest, FollowsTheRuleOfTorchChunk) {
  const Box box = WholeTensor(Shape{10, 3});
  EXPECT_EQ(SplitDim(box, 0, 0, 4)->ToString(), "[0:3,0:3]");
  EXPECT_EQ(SplitDim(box, 0, 3, 4)->ToString(), "[9:10,0:3]");
  EXPECT_EQ(SplitDim(box, 1, 3, 4)->ToString(), "[0:10,3:3]");
}

TEST(SplitDimTest, WorksInsideABox) {
  EXPECT_EQ(SplitDim(Box{{{4, 8}}}, 0, 1, 2)->ToString(), "[6:8]");
}

TEST(SplitFlatTest, CutsTheRowMajorOrder) {
  const Box box = WholeTensor(Shape{3, 3});
  EXPECT_EQ(SplitFlat(box, 0, 2)->ToString(), "[0:3,0:3]{0:5}");
  EXPECT_EQ(SplitFlat(box, 1, 2)->ToString(), "[0:3,0:3]{5:9}");
  EXPECT_EQ(SplitFlat(box, 1, 2, 16)->ToString(), "[0:3,0:3]{9:9}");
  EXPECT_EQ(SplitFlat(box, 63, 64)->numel(), 0);
  EXPECT_EQ(SplitFlat(WholeTensor(Shape{0}), 1, 2)->numel(), 0);
}

TEST(SplitTest, HugePiecesDoNotOverflow) {
  EXPECT_EQ(SplitFlat(WholeTensor(Shape{8}), 3, 4, INT64_MAX)->numel(), 0);
  EXPECT_EQ(SplitFlat(WholeTensor(Shape{INT64_MAX}), 2, 3)->flat.end, INT64_MAX);
}

TEST(SplitTest, BadArgumentsAreNamed) {
  const Box box = WholeTensor(Shape{3, 3});
  EXPECT_EQ(SplitDim(box, 2, 0, 1).status().ToString(), "[split_dim] [0:3,0:3] has no dim 2");
  EXPECT_EQ(SplitDim(box, 0, 2, 2).status().ToString(),
            "[split_dim] index is 2 and count 2, must be 0 <= index < count");
  EXPECT_EQ(SplitFlat(box, 0, 0).status().ToString(),
            "[split_flat] index is 0 and count 0, must be 0 <= index < count");
  EXPECT_EQ(SplitFlat(box, 0, 2, 4).status().ToString(),
            "[split_flat] 2 pieces of 4 elements do not hold the 9 elements of [0:3,0:3]");
}

RC_GTEST_PROP(SplitProperty, ThePartsAreTheBox, ()) {
  const Shape shape = AnyShape();
  const Box box = AnyShard(shape).box;
  const int64_t count = *rc::gen::inRange<int64_t>(1, 8);
  const int64_t more = *rc::gen::inRange<int64_t>(0, 4);
  const int64_t piece = more == 0 ? 0 : box.numel() / count + more;
  std::vector<int64_t> flat_parts;
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<int64_t> part = ElementsOf(*SplitFlat(box, i, count, piece), shape);
    flat_parts.insert(flat_parts.end(), part.begin(), part.end());
  }
  RC_ASSERT(flat_parts == ElementsOf(WholeBox(box), shape));
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    std::vector<Box> parts;
    for (int64_t i = 0; i < count; ++i) {
      parts.push_back(*SplitDim(box, static_cast<int64_t>(dim), i, count));
    }
    RC_ASSERT(testing::Sorted(ElementsOf(parts, shape)) == ElementsOf(WholeBox(box), shape));
  }
}

}  // namespace
}  // namespace shoal::layout
