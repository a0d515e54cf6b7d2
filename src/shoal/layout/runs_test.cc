#include "shoal/layout/runs.h"

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

TEST(RunsTest, TheSameShardIsOneRun) {
  const Shard shard{WholeTensor(Shape{4, 8}), {3, 29}};
  EXPECT_EQ(Runs(shard, shard), (std::vector<CopyRun>{{0, 0, 26}}));
}

TEST(RunsTest, ARowSplitIsOneRun) {
  EXPECT_EQ(Runs(WholeBox(WholeTensor(Shape{4, 8})), WholeBox({{{2, 4}, {0, 8}}})),
            (std::vector<CopyRun>{{16, 0, 16}}));
}

TEST(RunsTest, AColumnSplitIsOneRunPerRow) {
  const std::vector<CopyRun> runs =
      Runs(WholeBox(WholeTensor(Shape{3, 8})), WholeBox({{{0, 3}, {4, 8}}}));
  EXPECT_EQ(runs, (std::vector<CopyRun>{{4, 0, 4}, {12, 4, 4}, {20, 8, 4}}));
  EXPECT_EQ(runs[1].ToString(), "12->4 x4");
}

TEST(RunsTest, DifferentZeroRangesOverlapInOneRun) {
  const Box box = WholeTensor(Shape{5, 7});
  EXPECT_EQ(Runs({box, {10, 20}}, {box, {15, 35}}), (std::vector<CopyRun>{{5, 0, 5}}));
}

TEST(RunsTest, NothingInCommonIsNoRun) {
  EXPECT_TRUE(Runs(WholeBox({{{0, 2}}}), WholeBox({{{2, 4}}})).empty());
  EXPECT_TRUE(Runs(WholeBox({{{0, 0}}}), WholeBox({{{0, 4}}})).empty());
}

TEST(RunsTest, ZeroDimTensorsAreOneElement) {
  EXPECT_EQ(Runs(WholeBox(Box{}), WholeBox(Box{})), (std::vector<CopyRun>{{0, 0, 1}}));
}

TEST(RunsTest, OffsetsBeyondTwoToThe31Work) {
  const Shard whole = WholeBox(WholeTensor(Shape{1 << 18, 1 << 16}));
  EXPECT_EQ(Runs(whole, {whole.box, {int64_t{1} << 33, (int64_t{1} << 33) + 100000}}),
            (std::vector<CopyRun>{{int64_t{1} << 33, 0, 100000}}));
}

RC_GTEST_PROP(RunsProperty, MoveEveryCommonElementOnceToItsPlace, ()) {
  const Shape shape = AnyShape();
  const Shard source = AnyShard(shape);
  const Shard destination = AnyShard(shape);
  const std::vector<int64_t> have = ElementsOf(source, shape);
  const std::vector<int64_t> want = ElementsOf(destination, shape);
  std::vector<int64_t> got(want.size(), -1);
  for (const CopyRun& run : Runs(source, destination)) {
    for (int64_t i = 0; i < run.numel; ++i) {
      int64_t& slot = got.at(static_cast<size_t>(run.destination_offset + i));
      RC_ASSERT(slot == -1);
      slot = have.at(static_cast<size_t>(run.source_offset + i));
    }
  }
  for (size_t i = 0; i < want.size(); ++i) {
    const bool common = std::binary_search(have.begin(), have.end(), want[i]);
    RC_ASSERT(got[i] == (common ? want[i] : -1));
  }
}

RC_GTEST_PROP(RunsProperty, AreInOrderAndMaximal, ()) {
  const Shape shape = AnyShape();
  const std::vector<CopyRun> runs = Runs(AnyShard(shape), AnyShard(shape));
  for (size_t i = 1; i < runs.size(); ++i) {
    const int64_t end = runs[i - 1].destination_offset + runs[i - 1].numel;
    RC_ASSERT(end <= runs[i].destination_offset);
    const bool continues = end == runs[i].destination_offset &&
                           runs[i - 1].source_offset + runs[i - 1].numel == runs[i].source_offset;
    RC_ASSERT(!continues);
  }
  for (const CopyRun& run : runs) RC_ASSERT(run.numel > 0);
}

}  // namespace
}  // namespace shoal::layout
