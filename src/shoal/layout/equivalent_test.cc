#include "shoal/layout/equivalent.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <rapidcheck.h>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/layout/intersect.h"
#include "shoal/layout/layout.h"
#include "shoal/layout/shard.h"
#include "shoal/layout/shards_for_test_internal.h"
#include "shoal/layout/tensor_spec.h"

namespace shoal::layout {
namespace {

using testing::AnyShape;
using testing::AnyShard;
using testing::ElementsOf;
using Shards = std::vector<Shard>;

std::vector<int64_t> Storage(const Shards& shards, const std::vector<int64_t>& shape) {
  std::vector<int64_t> elements;
  for (const Shard& shard : shards) {
    const std::vector<int64_t> more = ElementsOf(shard, shape);
    elements.insert(elements.end(), more.begin(), more.end());
  }
  return elements;
}

TEST(EquivalentTest, TheSameStorageWrittenDifferently) {
  const Shards flat = {{WholeTensor(std::vector<int64_t>{4, 8}), {16, 32}}};
  const Shards box = {WholeBox({{{2, 4}, {0, 8}}})};
  const Shards rows = {WholeBox({{{2, 3}, {0, 8}}}), WholeBox({{{3, 4}, {0, 8}}})};
  const Shards swapped = {rows[1], rows[0]};
  EXPECT_TRUE(Equivalent(flat, box));
  EXPECT_TRUE(Equivalent(rows, box));
  EXPECT_FALSE(Equivalent(swapped, box));
  EXPECT_FALSE(Equivalent(Shards{rows[0]}, box));
  EXPECT_TRUE(Equivalent(Shards{}, Shards{}));
  EXPECT_TRUE(Equivalent(Shards{WholeBox({{{2, 2}, {0, 8}}})}, Shards{}));
}

TensorLayout Tensor(Shards of_rank_0, Shards of_rank_1) {
  return {{"w", {4, 8}, DType::kFloat32}, 1, {std::move(of_rank_0), std::move(of_rank_1)}};
}

TEST(EquivalentTest, LayoutsCompareByRankAndTensor) {
  const Shard top = WholeBox({{{0, 2}, {0, 8}}});
  const Shard bottom = WholeBox({{{2, 4}, {0, 8}}});
  const Shard flat_bottom{WholeTensor(std::vector<int64_t>{4, 8}), {16, 32}};
  const Layout layout = Layout::Make({0, 1}, {Tensor({top}, {bottom})}).value();
  EXPECT_TRUE(Equivalent(layout, Layout::Make({1, 0}, {Tensor({flat_bottom}, {top})}).value()));
  EXPECT_FALSE(Equivalent(layout, Layout::Make({0, 1}, {Tensor({bottom}, {top})}).value()));
  EXPECT_FALSE(Equivalent(layout, Layout::Make({0, 2}, {Tensor({top}, {bottom})}).value()));
  EXPECT_FALSE(Equivalent(layout, Layout::Make({0, 1}, {}).value()));
  EXPECT_FALSE(Equivalent(Layout::Make({0}, {}).value(), Layout::Make({1}, {}).value()));

  TensorLayout other = Tensor({top}, {bottom});
  other.spec.dtype = DType::kFloat64;
  EXPECT_FALSE(Equivalent(layout, Layout::Make({0, 1}, {other}).value()));
  other = Tensor({top}, {bottom});
  other.replicas = 2;
  EXPECT_FALSE(Equivalent(layout, Layout::Make({0, 1}, {other}).value()));
  other = Tensor({top}, {bottom});
  other.spec.name = "v";
  EXPECT_FALSE(Equivalent(layout, Layout::Make({0, 1}, {other}).value()));
}

RC_GTEST_PROP(EquivalentProperty, AgreesWithTheElementsInStorageOrder, ()) {
  const std::vector<int64_t> shape = AnyShape();
  const Shard shard = AnyShard(shape);
  const Shards a = {shard};
  Shards b;
  switch (*rc::gen::inRange(0, 3)) {
    case 0:  // cut into boxes: the same
      for (const Box& box : BoxesOf(shard)) b.push_back(WholeBox(box));
      break;
    case 1: {  // cut in two at a random place, perhaps swapped
      const int64_t cut = *rc::gen::inRange<int64_t>(shard.flat.begin, shard.flat.end + 1);
      b = {{shard.box, {shard.flat.begin, cut}}, {shard.box, {cut, shard.flat.end}}};
      if (*rc::gen::arbitrary<bool>()) std::swap(b[0], b[1]);
      break;
    }
    default:
      b = {AnyShard(shape)};
  }
  const bool expected = Storage(a, shape) == Storage(b, shape);
  RC_CLASSIFY(expected);
  RC_ASSERT(Equivalent(a, b) == expected);
  RC_ASSERT(Equivalent(b, a) == expected);
}

}  // namespace
}  // namespace shoal::layout
