#include "shoal/layout/subtract.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <rapidcheck.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
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

TEST(SubtractTest, AHoleLeavesTwoBoxesPerDim) {
  const std::vector<Box> rest = Subtract(Box{{{0, 4}, {0, 4}}}, Box{{{1, 2}, {1, 3}}});
  std::vector<std::string> text;
  for (const Box& box : rest) text.push_back(box.ToString());
  EXPECT_EQ(text, (std::vector<std::string>{"[0:1,0:4]", "[2:4,0:4]", "[1:2,0:1]", "[1:2,3:4]"}));
}

TEST(SubtractTest, NothingInCommonLeavesAll) {
  EXPECT_EQ(Subtract(Box{{{0, 2}}}, Box{{{2, 4}}}), (std::vector<Box>{{{{0, 2}}}}));
  EXPECT_TRUE(Subtract(Box{{{2, 2}}}, Box{{{0, 4}}}).empty());
  EXPECT_TRUE(Subtract(Box{}, Box{}).empty());
}

RC_GTEST_PROP(SubtractProperty, HoldsExactlyWhatTheOtherLacks, ()) {
  const Shape shape = AnyShape();
  const Shard a = AnyShard(shape);
  const Shard b = AnyShard(shape);
  const std::vector<int64_t> of_a = ElementsOf(a, shape);
  const std::vector<int64_t> of_b = ElementsOf(b, shape);
  std::vector<int64_t> expected;
  std::set_difference(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                      std::back_inserter(expected));
  const std::vector<Box> rest = Subtract(a, b);
  RC_ASSERT(testing::Sorted(ElementsOf(rest, shape)) == expected);
  for (const Box& box : rest) RC_ASSERT(box.numel() > 0);
}

RC_GTEST_PROP(SubtractProperty, TwoBoxesLeaveAtMostTwoPerDim, ()) {
  const Shape shape = AnyShape();
  RC_ASSERT(Subtract(AnyShard(shape).box, AnyShard(shape).box).size() <=
            std::max<size_t>(1, 2 * shape.size()));
}

}  // namespace
}  // namespace shoal::layout
