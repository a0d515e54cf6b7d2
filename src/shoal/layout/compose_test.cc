#include "shoal/layout/compose.h"

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

// The shape of the tensor that a shard stores.
Shape StoredShape(const Shard& shard) {
  return shard.is_whole_box() ? shard.box.shape() : Shape{shard.numel()};
}

TEST(ComposeTest, AZeroRangeInsideATensorParallelBox) {
  const Shard outer = WholeBox({{{4, 8}, {0, 8}}});
  const Shard inner{WholeTensor(Shape{4, 8}), {16, 32}};
  EXPECT_EQ(Compose(outer, inner)->ToString(), "[4:8,0:8]{16:32}");
}

TEST(ComposeTest, ABoxInsideABox) {
  EXPECT_EQ(Compose(WholeBox({{{4, 8}, {2, 6}}}), WholeBox({{{1, 2}, {0, 3}}}))->ToString(),
            "[5:6,2:5]");
}

TEST(ComposeTest, APartOfAZeroRange) {
  const Shard outer{WholeTensor(Shape{4, 8}), {10, 20}};
  EXPECT_EQ(Compose(outer, {{{{2, 8}}}, {1, 4}})->ToString(), "[0:4,0:8]{13:16}");
}

TEST(ComposeTest, ZeroDimTensorsCompose) {
  EXPECT_EQ(Compose(WholeBox(Box{}), WholeBox(Box{}))->ToString(), "[]");
}

TEST(ComposeTest, AnInnerShardOutsideIsRefused) {
  EXPECT_EQ(Compose(WholeBox({{{4, 8}}}), WholeBox({{{0, 5}}})).status().ToString(),
            "[shard] [0:5] is not inside a tensor of shape [4]: the range of dim 0 (composing with "
            "[4:8])");
}

RC_GTEST_PROP(ComposeProperty, ElementsAreThoseOfInnerInOuter, ()) {
  const Shape shape = AnyShape();
  const Shard outer = AnyShard(shape);
  const Shard inner = AnyShard(StoredShape(outer));
  const std::vector<int64_t> of_outer = ElementsOf(outer, shape);
  std::vector<int64_t> expected;
  for (const int64_t element : ElementsOf(inner, StoredShape(outer))) {
    expected.push_back(of_outer.at(static_cast<size_t>(element)));
  }
  const Shard composed = Compose(outer, inner).value();
  RC_ASSERT(CheckInside(composed, shape).ok());
  RC_ASSERT(ElementsOf(composed, shape) == expected);
}

RC_GTEST_PROP(ComposeProperty, IsAssociative, ()) {
  const Shape shape = AnyShape();
  const Shard a = AnyShard(shape);
  const Shard b = AnyShard(StoredShape(a));
  const Shard c = AnyShard(StoredShape(b));
  const Shard ab = Compose(a, b).value();
  RC_PRE(StoredShape(ab) == StoredShape(b));  // else c is no shard of what ab stores
  RC_ASSERT(ElementsOf(Compose(ab, c).value(), shape) ==
            ElementsOf(Compose(a, Compose(b, c).value()).value(), shape));
}

}  // namespace
}  // namespace shoal::layout
