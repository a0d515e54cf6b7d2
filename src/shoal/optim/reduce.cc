#include "shoal/optim/reduce.h"

#include <fmt/format.h>

#include <algorithm>
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
using internal::kSumBlock;

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

Status CheckDType(std::string_view operation, std::string_view name, DType dtype) {
  if (IsRealFloat(dtype)) return {};
  return Status::InvalidArgument(
      operation, fmt::format("{} is {}, must be float32, float64, bfloat16 or float16", name,
                             DTypeName(dtype)));
}

Status CheckBuffer(std::string_view operation, std::string_view name, const void* pointer,
                   DType dtype) {
  SHOAL_RETURN_IF_ERROR(CheckDType(operation, name, dtype));
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
  SHOAL_RETURN_IF_ERROR(CheckDType(kOperation, "pieces", pieces_dtype));
  for (size_t i = 0; i < pieces.size(); ++i) {
    SHOAL_RETURN_IF_ERROR(CheckBuffer(kOperation, "pieces", pieces[i], pieces_dtype)
                              .WithContext(fmt::format("piece {} of {}", i, pieces.size())));
  }
  const auto sum = ChooseKernels().sum[IndexOf(pieces_dtype)][IndexOf(dst_dtype)];
  executor.ParallelFor(0, numel, kGrain, [&](int64_t begin, int64_t end) {
    sum({.pieces = pieces, .dst = dst, .accumulate = accumulate, .begin = begin, .end = end});
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
