#include "shoal/plan/unit_packer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <rapidcheck.h>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"

namespace shoal::plan {
namespace {

constexpr DType kBf16 = DType::kBFloat16;
constexpr DType kFp32 = DType::kFloat32;

ParamSpec Param(int64_t numel, DType dtype = kFp32, bool trainable = true) {
  return {"p" + std::to_string(numel), numel, dtype, trainable};
}

PackOptions Ranks(int64_t num_ranks, int64_t block_elements = 1) {
  return {.num_ranks = num_ranks, .block_elements = block_elements};
}

UnitLayout Pack(const std::vector<ParamSpec>& params, const PackOptions& options) {
  return PackUnit(params, options).value();
}

std::vector<int64_t> Offsets(const UnitLayout& layout) {
  std::vector<int64_t> offsets;
  for (const Slice& slice : layout.slices) offsets.push_back(slice.offset_bytes);
  return offsets;
}

TEST(PackUnitTest, NoParametersGiveAnEmptyLayout) { EXPECT_EQ(Pack({}, Ranks(8)), UnitLayout()); }

TEST(PackUnitTest, OneParameterIsPaddedToEqualPieces) {
  const UnitLayout layout = Pack({Param(100)}, Ranks(3));
  ASSERT_EQ(layout.segments.size(), 1U);
  EXPECT_EQ(layout.segments[0], (Segment{.dtype = kFp32,
                                         .trainable = true,
                                         .offset_bytes = 0,
                                         .numel = 144,
                                         .piece_numel = 48,
                                         .used_numel = 100}));
  EXPECT_EQ(layout.slices[0], (Slice{.segment = 0, .offset_bytes = 0, .numel = 100}));
  EXPECT_EQ(layout.total_bytes, 768);  // 144 * 4 = 576, rounded up to 256
  EXPECT_EQ(layout.padding_bytes, 768 - 400);
}

TEST(PackUnitTest, NothingIsPaddedWhereNothingNeedsIt) {
  const UnitLayout layout = Pack({Param(1024, kBf16), Param(4096, kBf16)}, Ranks(4));
  EXPECT_EQ(layout.total_bytes, 10240);
  EXPECT_EQ(layout.padding_bytes, 0);
}

TEST(PackUnitTest, SegmentsAreByDtypeAndTrainableInOrderOfAppearance) {
  const UnitLayout layout = Pack(
      {Param(64, kBf16), Param(64, kFp32), Param(128, kBf16, false), Param(192, kBf16)}, Ranks(1));
  ASSERT_EQ(layout.segments.size(), 3U);
  EXPECT_EQ(layout.segments[0].dtype, kBf16);
  EXPECT_EQ(layout.segments[0].used_numel, 256);
  EXPECT_EQ(layout.segments[1].dtype, kFp32);
  EXPECT_FALSE(layout.segments[2].trainable);
  std::vector<int64_t> segments;
  for (const Slice& slice : layout.slices) segments.push_back(slice.segment);
  EXPECT_EQ(segments, (std::vector<int64_t>{0, 1, 2, 0}));
}

TEST(PackUnitTest, GivenOrderIsKeptWhereItDoesNotMatter) {
  // With 4 ranks the pieces swallow what moving p1 would save.
  EXPECT_EQ(Offsets(Pack({Param(64), Param(1), Param(128), Param(64)}, Ranks(4))),
            (std::vector<int64_t>{0, 256, 512, 1024}));
  // The same gap everywhere: nothing is gained by moving one.
  EXPECT_EQ(Offsets(Pack({Param(16), Param(16), Param(16)}, Ranks(1))),
            (std::vector<int64_t>{0, 256, 512}));
}

TEST(PackUnitTest, TheParameterWithTheUsefulGapMovesToTheEnd) {
  // p1 leaves a gap of 252 bytes unless it is last.
  const UnitLayout layout = Pack({Param(64), Param(1), Param(640)}, Ranks(1));
  EXPECT_EQ(Offsets(layout), (std::vector<int64_t>{0, 2816, 256}));
  EXPECT_EQ(layout.segments[0].numel, 64 + 640 + 16);
}

TEST(PackUnitTest, EmptyParametersTakeNoSpace) {
  const UnitLayout layout = Pack({Param(0), Param(64), Param(0)}, Ranks(2));
  EXPECT_EQ(layout.total_bytes, 256);
  EXPECT_EQ(Offsets(layout), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(layout.slices[2].numel, 0);

  const UnitLayout all_empty = Pack({Param(0), Param(0, kBf16)}, Ranks(2));
  EXPECT_EQ(all_empty.total_bytes, 0);
  EXPECT_EQ(all_empty.segments.size(), 2U);
}

TEST(PackUnitTest, FewerElementsThanRanksWork) {
  const UnitLayout layout = Pack({Param(3)}, Ranks(64));
  EXPECT_EQ(layout.segments[0].piece_numel, 16);
  EXPECT_EQ(layout.segments[0].numel, 1024);
}

TEST(PackUnitTest, MoreThanTwoToThe31ElementsWork) {
  const int64_t numel = (int64_t{1} << 33) + 1;
  const UnitLayout layout = Pack({Param(numel, kBf16), Param(numel, kBf16)}, Ranks(7));
  EXPECT_EQ(layout.slices[1].offset_elements, (int64_t{1} << 33) + 128);
  EXPECT_EQ(layout.segments[0].used_numel, 2 * numel);
  EXPECT_GE(layout.segments[0].numel, layout.slices[1].offset_elements + numel);
}

TEST(PackUnitTest, AnotherSliceAlignmentIsKept) {
  const PackOptions options{.num_ranks = 1, .slice_alignment_bytes = 4096};
  EXPECT_EQ(Offsets(Pack({Param(1), Param(1)}, options)), (std::vector<int64_t>{0, 4096}));
}

TEST(PackUnitTest, PaddingForcedByBlocksIsRefusedWithTheNumbers) {
  EXPECT_EQ(PackUnit(std::vector<ParamSpec>{Param(1000)}, Ranks(8, 2048)).status().ToString(),
            "[pack_unit] padding is 61536 of 65536 bytes (93.9 %), above 5 % and above the 1024 "
            "bytes that alignment can force (1 parameters, num_ranks=8, block_elements=2048): put "
            "more parameters into the unit or use smaller blocks");
  EXPECT_TRUE(PackUnit(std::vector<ParamSpec>{Param(16384 * 20)}, Ranks(8, 2048)).ok());
}

TEST(PackUnitTest, BadOptionsAndParametersAreNamed) {
  const std::vector<ParamSpec> params = {Param(8)};
  EXPECT_EQ(PackUnit(params, Ranks(0)).status().ToString(),
            "[pack_unit] num_ranks is 0, must be >= 1");
  EXPECT_EQ(PackUnit(params, Ranks(1, 0)).status().ToString(),
            "[pack_unit] block_elements is 0, must be >= 1");
  for (const int64_t alignment : {0, 32, 96}) {
    EXPECT_NE(PackUnit(params, {.slice_alignment_bytes = alignment})
                  .status()
                  .message()
                  .find("must be a power of two >= 64"),
              std::string::npos);
  }
  EXPECT_EQ(PackUnit(std::vector<ParamSpec>{{"w", -1, kFp32, true}}, Ranks(1)).status().ToString(),
            "[pack_unit] parameter 'w' has numel -1, must be >= 0");
}

TEST(PackUnitTest, SizesBeyondInt64AreRefused) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const auto code_of = [](const std::vector<ParamSpec>& params, const PackOptions& options) {
    return PackUnit(params, options).status().code();
  };
  EXPECT_EQ(code_of({Param(kHuge)}, Ranks(1)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({Param(kHuge / 512), Param(kHuge / 512)}, Ranks(1)),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({Param(8)}, Ranks(kHuge)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({Param(8)}, Ranks(1, kHuge)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({Param(8)}, {.slice_alignment_bytes = int64_t{1} << 62}),
            StatusCode::kInvalidArgument);
}

// Random units: sizes around the alignments, several dtypes, some frozen.
std::vector<ParamSpec> AnyParams() {
  const auto numel =
      rc::gen::oneOf(rc::gen::inRange<int64_t>(0, 8), rc::gen::inRange<int64_t>(0, 700),
                     rc::gen::inRange<int64_t>(0, 100000));
  const auto dtype = rc::gen::element(kBf16, kFp32, DType::kFloat64, DType::kInt8);
  std::vector<ParamSpec> params;
  const int count = *rc::gen::inRange(0, 12);
  for (int i = 0; i < count; ++i) {
    params.push_back({"p" + std::to_string(i), *numel, *dtype, *rc::gen::arbitrary<bool>()});
  }
  return params;
}

int64_t Bytes(const Segment& segment) { return segment.numel * DTypeBytes(segment.dtype); }

RC_GTEST_PROP(PackUnitProperty, SlicesAreAlignedInsideTheirSegmentAndDisjoint, ()) {
  const std::vector<ParamSpec> params = AnyParams();
  const UnitLayout layout = Pack(params, Ranks(*rc::gen::inRange<int64_t>(1, 20)));
  RC_ASSERT(layout.slices.size() == params.size());
  std::vector<std::pair<int64_t, int64_t>> used;
  for (size_t i = 0; i < params.size(); ++i) {
    const Slice& slice = layout.slices[i];
    const Segment& segment = layout.segments.at(static_cast<size_t>(slice.segment));
    const int64_t element = DTypeBytes(segment.dtype);
    RC_ASSERT(segment.dtype == params[i].dtype);
    RC_ASSERT(segment.trainable == params[i].trainable);
    RC_ASSERT(slice.numel == params[i].numel);
    RC_ASSERT(slice.offset_bytes % 256 == 0);
    RC_ASSERT(slice.offset_bytes == segment.offset_bytes + slice.offset_elements * element);
    RC_ASSERT(slice.offset_elements + slice.numel <= segment.numel);
    if (slice.numel > 0) {
      used.emplace_back(slice.offset_bytes, slice.offset_bytes + slice.numel * element);
    }
  }
  std::sort(used.begin(), used.end());
  for (size_t i = 1; i < used.size(); ++i) RC_ASSERT(used[i - 1].second <= used[i].first);
}

RC_GTEST_PROP(PackUnitProperty, SegmentsFollowEachOtherInEqualAlignedPieces, ()) {
  const std::vector<ParamSpec> params = AnyParams();
  const int64_t num_ranks = *rc::gen::inRange<int64_t>(1, 20);
  const UnitLayout layout = Pack(params, Ranks(num_ranks));
  int64_t end = 0;
  int64_t used_bytes = 0;
  for (const Segment& segment : layout.segments) {
    RC_ASSERT(segment.offset_bytes % 256 == 0);
    RC_ASSERT(segment.offset_bytes >= end);
    RC_ASSERT(segment.piece_numel * num_ranks == segment.numel);
    RC_ASSERT(segment.piece_numel * DTypeBytes(segment.dtype) % 64 == 0);
    end = segment.offset_bytes + Bytes(segment);
    used_bytes += segment.used_numel * DTypeBytes(segment.dtype);
  }
  int64_t param_bytes = 0;
  for (const ParamSpec& param : params) param_bytes += param.numel * DTypeBytes(param.dtype);
  RC_ASSERT(used_bytes == param_bytes);
  RC_ASSERT(layout.total_bytes >= end);
  RC_ASSERT(layout.total_bytes - end < 256);
  RC_ASSERT(layout.padding_bytes == layout.total_bytes - param_bytes);
}

RC_GTEST_PROP(PackUnitProperty, NoBlockStraddlesTwoRanksOrTheLayoutIsRefused, ()) {
  const std::vector<ParamSpec> params = AnyParams();
  const int64_t block = *rc::gen::inRange<int64_t>(1, 300);
  const Result<UnitLayout> layout =
      PackUnit(params, Ranks(*rc::gen::inRange<int64_t>(1, 9), block));
  RC_PRE(layout.ok());
  for (const Segment& segment : layout->segments) RC_ASSERT(segment.piece_numel % block == 0);
}

RC_GTEST_PROP(PackUnitProperty, NoOtherLastParameterWouldGiveASmallerSegment, ()) {
  std::vector<ParamSpec> params = AnyParams();
  for (ParamSpec& param : params) param = Param(param.numel);
  const PackOptions options = Ranks(*rc::gen::inRange<int64_t>(1, 5));
  const int64_t packed = Pack(params, options).total_bytes;
  // Brute force in the test: any order, by its last parameter.
  for (size_t last = 0; last < params.size(); ++last) {
    int64_t bytes = 0;
    for (size_t i = 0; i < params.size(); ++i) {
      const int64_t raw = params[i].numel * 4;
      bytes += i == last ? raw : (raw + 255) / 256 * 256;
    }
    const int64_t quantum = 64 * options.num_ranks;
    const int64_t padded = (bytes + quantum - 1) / quantum * quantum;
    RC_ASSERT(packed <= (padded + 255) / 256 * 256);
  }
}

RC_GTEST_PROP(PackUnitProperty, PackingAgainGivesTheSame, ()) {
  const std::vector<ParamSpec> params = AnyParams();
  const PackOptions options = Ranks(*rc::gen::inRange<int64_t>(1, 20));
  RC_ASSERT(Pack(params, options) == Pack(params, options));
}

}  // namespace
}  // namespace shoal::plan
