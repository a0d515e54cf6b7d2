#include "shoal/layout/shard.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <rapidcheck.h>
#include <algorithm>
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

TEST(ShardTest, PrintsInTheNotation) {
  const Box box{{{0, 4}, {2, 8}}};
  EXPECT_EQ(box.ToString(), "[0:4,2:8]");
  EXPECT_EQ((Shard{box, {3, 17}}).ToString(), "[0:4,2:8]{3:17}");
  EXPECT_EQ(WholeBox(box).ToString(), "[0:4,2:8]");
  EXPECT_EQ(WholeBox(Box{}).ToString(), "[]");
}

TEST(ShardTest, ZeroDimTensorsHaveOneElement) {
  const Shard scalar = WholeBox(WholeTensor(Shape{}));
  EXPECT_EQ(scalar.numel(), 1);
  EXPECT_EQ(BoxesOf(scalar), std::vector<Box>{Box{}});
  EXPECT_TRUE(CheckInside(scalar, Shape{}).ok());
}

TEST(ShardTest, EmptyTensorsHaveNone) {
  const Shard empty = WholeBox(WholeTensor(Shape{4, 0, 2}));
  EXPECT_EQ(empty.numel(), 0);
  EXPECT_TRUE(BoxesOf(empty).empty());
}

TEST(ShardTest, MoreThanTwoToThe31ElementsAreCounted) {
  const Box box = WholeTensor(Shape{1 << 20, 1 << 20});
  EXPECT_EQ(box.numel(), int64_t{1} << 40);
  const int64_t row = 1 << 20;
  EXPECT_EQ(
      BoxesOf({box, {row - 1, 3 * row + 5}}),
      (std::vector<Box>{{{{0, 1}, {row - 1, row}}}, {{{1, 3}, {0, row}}}, {{{3, 4}, {0, 5}}}}));
}

TEST(CheckInsideTest, NamesWhatIsOutside) {
  const auto error = [](const Shard& shard, const Shape& shape) {
    return CheckInside(shard, shape).ToString();
  };
  EXPECT_EQ(error(WholeBox({{{0, 5}}}), {4}),
            "[shard] [0:5] is not inside a tensor of shape [4]: the range of dim 0");
  EXPECT_EQ(error(WholeBox({{{0, 4}}}), {4, 1}),
            "[shard] [0:4] is not inside a tensor of shape [4,1]: another number of dims");
  EXPECT_EQ(error({{{{0, 2}, {0, 2}}}, {1, 5}}, {2, 2}),
            "[shard] [0:2,0:2]{1:5} is not inside a tensor of shape [2,2]: the flat range of a box "
            "of 4 elements");
  EXPECT_FALSE(CheckInside(WholeBox({{{-1, 2}}}), Shape{4}).ok());
  EXPECT_FALSE(CheckInside(WholeBox({{{3, 2}}}), Shape{4}).ok());
  EXPECT_FALSE(CheckInside({{{{0, 2}}}, {2, 1}}, Shape{4}).ok());
}

RC_GTEST_PROP(BoxesOfProperty, BoxesAreTheStorageInOrderAndFew, ()) {
  const Shape shape = AnyShape();
  const Shard shard = AnyShard(shape);
  RC_ASSERT(CheckInside(shard, shape).ok());
  const std::vector<Box> boxes = BoxesOf(shard);
  RC_ASSERT(ElementsOf(boxes, shape) == ElementsOf(shard, shape));
  RC_ASSERT(boxes.size() <= std::max<size_t>(1, 2 * std::max<size_t>(shape.size(), 1) - 1));
  for (const Box& box : boxes) RC_ASSERT(box.numel() > 0);
}

}  // namespace
}  // namespace shoal::layout
