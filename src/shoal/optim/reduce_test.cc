#include "shoal/optim/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/executor.h"
#include "shoal/base/status.h"
#include "shoal/optim/testing_internal.h"

namespace shoal::optim {
namespace {

using testing::Buffer;
using testing::ForEachInstructionSet;
using testing::kRealFloats;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<int64_t> OddSizes() {
  return {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 257, 1027};
}

// The definition in the header, written out.
double ScalarSumOfSquares(const Buffer& data) {
  constexpr int64_t kBlock = 8192;
  constexpr int64_t kPartial = 16;
  double total = 0.0;
  for (int64_t begin = 0; begin < data.numel(); begin += kBlock) {
    double partial[kPartial] = {};
    for (int64_t i = begin; i < std::min(begin + kBlock, data.numel()); ++i) {
      partial[(i - begin) % kPartial] += data.Get(i) * data.Get(i);
    }
    for (int64_t width = kPartial / 2; width > 0; width /= 2) {
      for (int64_t lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
    }
    total += partial[0];
  }
  return total;
}

TEST(SumOfSquares, HasTheBitsOfTheScalarLoopOnEveryInstructionSet) {
  Executor executor(1);
  ForEachInstructionSet([&] {
    for (const DType dtype : kRealFloats) {
      for (int64_t numel = 0; numel < 300; numel += numel < 40 ? 1 : 13) {
        Buffer data(dtype, numel, numel % 3);
        data.FillRandom(static_cast<uint32_t>(numel));
        ASSERT_EQ(SumOfSquares(data.data(), dtype, numel, executor), ScalarSumOfSquares(data))
            << DTypeName(dtype) << " " << numel;
      }
      Buffer large(dtype, 50'001);
      large.FillRandom(1);
      ASSERT_EQ(SumOfSquares(large.data(), dtype, 50'001, executor), ScalarSumOfSquares(large));
    }
  });
}

TEST(SumOfSquares, DoesNotDependOnTheNumberOfThreads) {
  Buffer data(DType::kFloat32, 300'007);
  data.FillRandom(3);
  Executor one(1);
  const double expected = SumOfSquares(data.data(), DType::kFloat32, data.numel(), one);
  for (const int threads : {2, 3, 5}) {
    Executor executor(threads);
    EXPECT_EQ(SumOfSquares(data.data(), DType::kFloat32, data.numel(), executor), expected);
  }
}

TEST(SumOfSquares, ShowsNonFiniteElementsWhereverTheyAre) {
  Executor executor(1);
  ForEachInstructionSet([&] {
    for (const DType dtype : kRealFloats) {
      for (const int64_t place : {0, 15, 16, 36}) {
        Buffer data(dtype, 37);
        data.Fill(1.0);
        data.Set(place, -kInf);
        ASSERT_EQ(SumOfSquares(data.data(), dtype, 37, executor), kInf);
        data.Set(place, kNan);
        ASSERT_TRUE(std::isnan(SumOfSquares(data.data(), dtype, 37, executor)));
      }
    }
  });
}

TEST(SumOfSquares, SquaresOfLargeFloat32DoNotOverflow) {
  Executor executor(1);
  Buffer data(DType::kFloat32, 3);
  data.Fill(0x1p120);
  EXPECT_EQ(SumOfSquares(data.data(), DType::kFloat32, 3, executor), 3 * 0x1p240);
}

TEST(Convert, MatchesTheScalarConversionForAllPairs) {
  Executor executor(1);
  ForEachInstructionSet([&] {
    for (const DType from : kRealFloats) {
      for (const DType to : kRealFloats) {
        for (const int64_t numel : OddSizes()) {
          Buffer src(from, numel, 1);
          src.FillRandom(static_cast<uint32_t>(numel), 3.0);
          Buffer dst(to, numel, numel % 2);
          Buffer expected(to, numel);
          for (int64_t i = 0; i < numel; ++i) expected.Set(i, src.Get(i));
          const Status status = Convert(src.data(), from, dst.data(), to, numel, executor);
          ASSERT_TRUE(status.ok()) << status.ToString();
          dst.ExpectSame(expected, "dst");
          dst.ExpectGuardsIntact();
        }
      }
    }
  });
}

// Every 16-bit pattern must survive the way to float32 and back.
TEST(Convert, Every16BitValueIsExactInFloat32) {
  Executor executor(1);
  constexpr int64_t kCount = 65'536;
  std::vector<uint16_t> patterns(kCount);
  for (int64_t i = 0; i < kCount; ++i) patterns[static_cast<size_t>(i)] = static_cast<uint16_t>(i);
  ForEachInstructionSet([&] {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      Buffer narrow(dtype, kCount);
      std::memcpy(narrow.data(), patterns.data(), 2 * kCount);
      Buffer wide(DType::kFloat32, kCount);
      ASSERT_TRUE(
          Convert(narrow.data(), dtype, wide.data(), DType::kFloat32, kCount, executor).ok());
      wide.ExpectSame(narrow, "float32");
      Buffer back(dtype, kCount);
      ASSERT_TRUE(Convert(wide.data(), DType::kFloat32, back.data(), dtype, kCount, executor).ok());
      back.ExpectSame(narrow, "back");
    }
  });
}

// Neighbours of every tie between two 16-bit values, subnormals, overflow and specials.
TEST(Convert, RoundsToNearestEvenAtEveryBoundary) {
  std::vector<float> values;
  for (uint32_t high = 0; high < 0x10000; high += 5) {
    for (const uint32_t low :
         {0x0000u, 0x0FFFu, 0x1000u, 0x1001u, 0x3000u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  for (const float special : {65504.0F, 65519.99F, 65520.0F, 65536.0F, 0x1p-24F, 0x1p-25F,
                              0x1.8p-25F, 0x1.FFCp-15F, 3.4e38F}) {
    values.push_back(special);
    values.push_back(-special);
  }
  const auto numel = static_cast<int64_t>(values.size());
  Executor executor(1);
  ForEachInstructionSet([&] {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      Buffer dst(dtype, numel);
      Buffer expected(dtype, numel);
      for (int64_t i = 0; i < numel; ++i) expected.Set(i, values[static_cast<size_t>(i)]);
      ASSERT_TRUE(Convert(values.data(), DType::kFloat32, dst.data(), dtype, numel, executor).ok());
      dst.ExpectSame(expected, "rounded");
    }
  });
}

// dst as SumPieces defines it; Sum is the type in which it adds.
template <class Sum>
Buffer ScalarSum(const std::vector<Buffer>& pieces, const Buffer& dst, bool accumulate) {
  Buffer expected(dst.dtype(), dst.numel());
  for (int64_t i = 0; i < dst.numel(); ++i) {
    Sum sum = accumulate ? static_cast<Sum>(dst.Get(i)) : Sum{0};
    for (const Buffer& piece : pieces) sum += static_cast<Sum>(piece.Get(i));
    expected.Set(i, sum);
  }
  return expected;
}

void CheckSum(DType from, DType to, bool accumulate, int64_t numel, int num_pieces) {
  SCOPED_TRACE(std::string(DTypeName(from)) + " to " + std::string(DTypeName(to)));
  std::vector<Buffer> pieces;
  std::vector<const void*> pointers;
  for (int r = 0; r < num_pieces; ++r) {
    pieces.emplace_back(from, numel, r % 3);
    pieces.back().FillRandom(static_cast<uint32_t>(100 * numel + r));
  }
  for (const Buffer& piece : pieces) pointers.push_back(piece.data());
  Buffer dst(to, numel, 1);
  dst.FillRandom(9);
  const bool wide = from == DType::kFloat64 || to == DType::kFloat64;
  const Buffer expected =
      wide ? ScalarSum<double>(pieces, dst, accumulate) : ScalarSum<float>(pieces, dst, accumulate);
  Executor executor(2);
  const Status status = SumPieces(pointers, from, dst.data(), to, accumulate, numel, executor);
  ASSERT_TRUE(status.ok()) << status.ToString();
  dst.ExpectSame(expected, "sum");
  dst.ExpectGuardsIntact();
}

TEST(SumPieces, AddsInOrderForAllDtypes) {
  ForEachInstructionSet([] {
    for (const DType from : kRealFloats) {
      for (const DType to : kRealFloats) {
        for (const bool accumulate : {false, true}) {
          for (const int num_pieces : {0, 1, 2, 5}) {
            for (const int64_t numel : {0, 1, 17, 1031}) {
              CheckSum(from, to, accumulate, numel, num_pieces);
            }
          }
        }
      }
    }
  });
}

TEST(SumPieces, ThreadsShareLargeBuffers) {
  CheckSum(DType::kBFloat16, DType::kFloat32, true, 150'003, 3);
}

TEST(SumPieces, DestinationMayBeAPiece) {
  Executor executor(2);
  Buffer a(DType::kBFloat16, 2051);
  Buffer b(DType::kBFloat16, 2051);
  a.FillRandom(1);
  b.FillRandom(2);
  Buffer expected(DType::kBFloat16, 2051);
  const std::vector<const void*> pieces = {a.data(), b.data()};
  ASSERT_TRUE(
      SumPieces(pieces, DType::kBFloat16, expected.data(), DType::kBFloat16, false, 2051, executor)
          .ok());
  ASSERT_TRUE(
      SumPieces(pieces, DType::kBFloat16, b.data(), DType::kBFloat16, false, 2051, executor).ok());
  b.ExpectSame(expected, "in place");
}

TEST(Accumulate, AddsToTheDestination) {
  Executor executor(1);
  Buffer src(DType::kBFloat16, 5);
  Buffer dst(DType::kFloat32, 5);
  src.Fill(1.5);
  dst.Fill(0x1p-20);
  ASSERT_TRUE(
      Accumulate(src.data(), DType::kBFloat16, dst.data(), DType::kFloat32, 5, executor).ok());
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(dst.Get(i), 1.5 + 0x1p-20);
}

TEST(Reduce, RefusesWhatItCannotRead) {
  Executor executor(1);
  Buffer src(DType::kFloat32, 4);
  Buffer dst(DType::kFloat32, 4);
  dst.Fill(7.0);
  const auto message = [&](const void* from, DType from_dtype, void* to, int64_t numel) {
    return Convert(from, from_dtype, to, DType::kFloat32, numel, executor).ToString();
  };
  EXPECT_EQ(message(src.data(), DType::kFloat32, dst.data(), -1),
            "[convert] numel is -1, must be >= 0");
  EXPECT_EQ(message(src.data(), DType::kInt32, dst.data(), 4),
            "[convert] src is int32, must be float32, float64, bfloat16 or float16");
  EXPECT_EQ(message(nullptr, DType::kFloat32, dst.data(), 4), "[convert] src is null");
  EXPECT_EQ(message(src.data(), DType::kFloat32, nullptr, 4), "[convert] dst is null");
  EXPECT_NE(message(static_cast<const std::byte*>(src.data()) + 1, DType::kFloat32, dst.data(), 3)
                .find("must be at a multiple of 4 bytes"),
            std::string::npos);
  const std::vector<const void*> pieces = {src.data(), nullptr};
  EXPECT_EQ(SumPieces(pieces, DType::kFloat32, dst.data(), DType::kFloat32, false, 4, executor)
                .ToString(),
            "[sum pieces] pieces is null (piece 1 of 2)");
  EXPECT_EQ(SumPieces({}, DType::kBool, dst.data(), DType::kFloat32, true, 4, executor).ToString(),
            "[sum pieces] pieces is bool, must be float32, float64, bfloat16 or float16");
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(dst.Get(i), 7.0);
}

}  // namespace
}  // namespace shoal::optim
