#include "shoal/layout/intersect.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <rapidcheck.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
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

TEST(IntersectTest, BoxesMeetInABox) {
  EXPECT_EQ(Intersect(Box{{{0, 4}, {2, 8}}}, Box{{{3, 9}, {0, 3}}})->ToString(), "[3:4,2:3]");
  EXPECT_EQ(Intersect(Box{{{0, 4}}}, Box{{{4, 8}}}), std::nullopt);
  EXPECT_EQ(Intersect(Box{}, Box{}), Box{});
}

TEST(IntersectTest, AZeroRangeMeetsAColumnSplit) {
  const Shard rows{WholeTensor(Shape{3, 4}), {2, 7}};
  const Shard column = WholeBox({{{0, 3}, {2, 4}}});
  const std::vector<Box> common = Intersect(rows, column);
  ASSERT_EQ(common.size(), 2U);
  EXPECT_EQ(common[0].ToString(), "[0:1,2:4]");
  EXPECT_EQ(common[1].ToString(), "[1:2,2:3]");
}

TEST(IntersectDeathTest, AnotherNumberOfDimsIsABug) {
  EXPECT_DEATH((void)Intersect(Box{{{0, 1}}}, Box{}), "dims.size");
}

RC_GTEST_PROP(IntersectProperty, HoldsExactlyTheCommonElements, ()) {
  const Shape shape = AnyShape();
  const Shard a = AnyShard(shape);
  const Shard b = AnyShard(shape);
  const std::vector<int64_t> of_a = ElementsOf(a, shape);
  const std::vector<int64_t> of_b = ElementsOf(b, shape);
  std::vector<int64_t> expected;
  std::set_intersection(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                        std::back_inserter(expected));
  const std::vector<Box> common = Intersect(a, b);
  RC_ASSERT(testing::Sorted(ElementsOf(common, shape)) == expected);
  const size_t per_shard = std::max<size_t>(1, 2 * std::max<size_t>(shape.size(), 1) - 1);
  RC_ASSERT(common.size() <= per_shard * per_shard);
}

RC_GTEST_PROP(IntersectProperty, CommutesAsASet, ()) {
  const Shape shape = AnyShape();
  const Shard a = AnyShard(shape);
  const Shard b = AnyShard(shape);
  RC_ASSERT(testing::Sorted(ElementsOf(Intersect(a, b), shape)) ==
            testing::Sorted(ElementsOf(Intersect(b, a), shape)));
}

}  // namespace
}  // namespace shoal::layout
