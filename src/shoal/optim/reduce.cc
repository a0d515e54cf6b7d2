#include "shoal/optim/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shoal/base/check.h"
#include "shoal/base/dtype.h"
#include "shoal/base/executor.h"
#include "shoal/base/status.h"
#include "shoal/optim/kernels_internal.h"

namespace shoal::optim {
namespace {

using internal::ChooseKernels;
using internal::IndexOf;
using internal::Kernels;
using internal::kSumBlock;

// Elements per tile: the sum of a tile stays in the first-level cache while the pieces are added.
constexpr int64_t kTile = 1024;
// The least number of elements that is worth waking a thread; a multiple of every cache line.
constexpr int64_t kGrain = 32768;

const void* At(const void* base, DType dtype, int64_t offset) {
  return static_cast<const std::byte*>(base) + offset * DTypeBytes(dtype);
}

void* At(void* base, DType dtype, int64_t offset) {
  return static_cast<std::byte*>(base) + offset * DTypeBytes(dtype);
}

Status CheckNumel(std::string_view operation, int64_t numel) {
  if (numel >= 0) return {};
  return Status::InvalidArgument(operation, fmt::format("numel is {}, must be >= 0", numel));
}

Status CheckBuffer(std::string_view operation, std::string_view name, const void* pointer,
                   DType dtype) {
  if (!IsRealFloat(dtype)) {
    return Status::InvalidArgument(
        operation, fmt::format("{} is {}, must be float32, float64, bfloat16 or float16", name,
                               DTypeName(dtype)));
  }
  if (pointer == nullptr) {
    return Status::InvalidArgument(operation, fmt::format("{} is null", name));
  }
  const int64_t bytes = DTypeBytes(dtype);
  if (reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) != 0) {
    return Status::InvalidArgument(
        operation, fmt::format("{} ({}) is at address {}, must be at a multiple of {} bytes", name,
                               DTypeName(dtype), pointer, bytes));
  }
  return {};
}

// A checked sum over one tile at a time.
struct Sum {
  const Kernels& kernels;
  std::span<const void* const> pieces;
  DType pieces_dtype;
  void* dst;
  DType dst_dtype;
  bool accumulate;

  void RunTile(int64_t offset, int64_t n) const {
    alignas(64) double scratch[kTile];
    const bool wide = pieces_dtype == DType::kFloat64 || dst_dtype == DType::kFloat64;
    const size_t sum_type = IndexOf(wide ? DType::kFloat64 : DType::kFloat32);
    void* const out = At(dst, dst_dtype, offset);
    size_t next = 0;
    if (accumulate) {
      kernels.convert[IndexOf(dst_dtype)][sum_type](out, scratch, n);
    } else if (!pieces.empty()) {
      const void* const first = At(pieces[next++], pieces_dtype, offset);
      kernels.convert[IndexOf(pieces_dtype)][sum_type](first, scratch, n);
    } else {
      std::fill_n(scratch, n, 0.0);  // all-zero bytes are zeros of either type
    }
    for (; next < pieces.size(); ++next) {
      const void* const piece = At(pieces[next], pieces_dtype, offset);
      kernels.add[IndexOf(pieces_dtype)][sum_type](piece, scratch, n);
    }
    kernels.convert[sum_type][IndexOf(dst_dtype)](scratch, out, n);
  }
};

}  // namespace

double SumOfSquares(const void* data, DType dtype, int64_t numel, Executor& executor) {
  SHOAL_CHECK(numel >= 0 && IsRealFloat(dtype) && (data != nullptr || numel == 0));
  const auto sum_block = ChooseKernels().sum_of_squares[IndexOf(dtype)];
  const int64_t num_blocks = numel / kSumBlock + (numel % kSumBlock != 0 ? 1 : 0);
  std::vector<double> sums(static_cast<size_t>(num_blocks));
  executor.ParallelFor(0, num_blocks, kGrain / kSumBlock, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t offset = block * kSumBlock;
      sums[static_cast<size_t>(block)] =
          sum_block(At(data, dtype, offset), std::min(kSumBlock, numel - offset));
    }
  });
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

Status SumPieces(std::span<const void* const> pieces, DType pieces_dtype, void* dst,
                 DType dst_dtype, bool accumulate, int64_t numel, Executor& executor) {
  constexpr std::string_view kOperation = "sum pieces";
  SHOAL_RETURN_IF_ERROR(CheckNumel(kOperation, numel));
  if (numel == 0) return {};
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kOperation, "dst", dst, dst_dtype));
  for (size_t i = 0; i < pieces.size(); ++i) {
    SHOAL_RETURN_IF_ERROR(CheckBuffer(kOperation, "pieces", pieces[i], pieces_dtype)
                              .WithContext(fmt::format("piece {} of {}", i, pieces.size())));
  }
  if (accumulate && pieces.empty()) return {};
  const Sum sum = {ChooseKernels(), pieces, pieces_dtype, dst, dst_dtype, accumulate};
  executor.ParallelFor(0, numel, kGrain, [&sum](int64_t begin, int64_t end) {
    for (int64_t offset = begin; offset < end; offset += kTile) {
      sum.RunTile(offset, std::min(kTile, end - offset));
    }
  });
  return {};
}

Status Convert(const void* src, DType src_dtype, void* dst, DType dst_dtype, int64_t numel,
               Executor& executor) {
  constexpr std::string_view kOperation = "convert";
  SHOAL_RETURN_IF_ERROR(CheckNumel(kOperation, numel));
  if (numel == 0) return {};
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kOperation, "src", src, src_dtype));
  SHOAL_RETURN_IF_ERROR(CheckBuffer(kOperation, "dst", dst, dst_dtype));
  const auto convert = ChooseKernels().convert[IndexOf(src_dtype)][IndexOf(dst_dtype)];
  executor.ParallelFor(0, numel, kGrain, [&](int64_t begin, int64_t end) {
    convert(At(src, src_dtype, begin), At(dst, dst_dtype, begin), end - begin);
  });
  return {};
}

Status Accumulate(const void* src, DType src_dtype, void* dst, DType dst_dtype, int64_t numel,
                  Executor& executor) {
  return SumPieces({&src, 1}, src_dtype, dst, dst_dtype, /*accumulate=*/true, numel, executor);
}

}  // namespace shoal::optim
