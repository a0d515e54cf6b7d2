#include "shoal/ckpt/share.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/ckpt/rank_file.h"

namespace shoal::ckpt {
namespace {

constexpr int64_t kMiB = 1 << 20;

PieceToWrite MakePiece(std::string name, DType dtype, int64_t begin, int64_t end) {
  return {.tensor = std::move(name),
          .role = "param",
          .dtype = dtype,
          .global_shape = {end},
          .dim_order = {},
          .flat_begin = begin,
          .flat_end = end,
          .data = nullptr};
}

int64_t BytesOf(const std::vector<PieceToWrite>& pieces) {
  int64_t bytes = 0;
  for (const auto& piece : pieces) {
    bytes += (piece.flat_end - piece.flat_begin) * DTypeBytes(piece.dtype);
  }
  return bytes;
}

RC_GTEST_PROP(ShareTest, EveryElementIsInOneShareAndSharesAreEven, ()) {
  const auto num_ranks = *rc::gen::inRange<int64_t>(1, 9);
  const auto sizes = *rc::gen::container<std::vector<int64_t>>(
      rc::gen::oneOf(rc::gen::inRange<int64_t>(0, 100), rc::gen::inRange<int64_t>(0, 3 * kMiB)));
  std::vector<PieceToWrite> pieces;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const DType dtype = i % 2 == 0 ? DType::kFloat64 : DType::kUInt8;
    pieces.push_back(MakePiece(std::to_string(i), dtype, 5, 5 + sizes[i]));
  }
  std::map<std::string, int64_t> covered;  // name -> end of what the shares so far hold
  int64_t most = 0;
  int64_t least = INT64_MAX;
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    const auto share = ShareOfReplicated(pieces, rank, num_ranks);
    most = std::max(most, BytesOf(share));
    least = std::min(least, BytesOf(share));
    for (const PieceToWrite& piece : share) {
      const auto [known, is_new] = covered.try_emplace(piece.tensor, 5);
      RC_ASSERT(is_new || piece.flat_begin < piece.flat_end);
      RC_ASSERT(piece.flat_begin == known->second);
      known->second = piece.flat_end;
    }
  }
  RC_ASSERT(covered.size() == pieces.size());
  for (const PieceToWrite& piece : pieces) RC_ASSERT(covered[piece.tensor] == piece.flat_end);
  RC_ASSERT(most - least <= 2 * kMiB);
}

TEST(ShareTest, DataFollowsTheSplit) {
  std::vector<double> values(static_cast<size_t>(kMiB));
  PieceToWrite piece = MakePiece("w", DType::kFloat64, 0, kMiB);
  piece.data = values.data();
  const std::vector<PieceToWrite> all = {piece};
  const auto second = ShareOfReplicated(all, 1, 2);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].flat_begin, kMiB / 2);
  EXPECT_EQ(second[0].data, values.data() + kMiB / 2);
}

}  // namespace
}  // namespace shoal::ckpt
