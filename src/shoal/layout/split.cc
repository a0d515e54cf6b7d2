#include "shoal/layout/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shoal/base/status.h"
#include "shoal/layout/shard.h"

namespace shoal::layout {
namespace {

Status CheckPart(std::string_view operation, int64_t index, int64_t count) {
  if (count >= 1 && index >= 0 && index < count) return Status();
  return Status::InvalidArgument(
      operation, fmt::format("index is {} and count {}, must be 0 <= index < count", index, count));
}

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// Part `index` of 0..size in pieces of `piece`; compares before multiplying, so nothing overflows.
Range Part(int64_t size, int64_t piece, int64_t index) {
  const int64_t begin = piece == 0 || index >= CeilDiv(size, piece) ? size : index * piece;
  return {begin, begin + std::min(piece, size - begin)};
}

}  // namespace

Result<Box> SplitDim(const Box& box, int64_t dim, int64_t index, int64_t count) {
  SHOAL_RETURN_IF_ERROR(CheckPart("split_dim", index, count));
  if (dim < 0 || dim >= static_cast<int64_t>(box.dims.size())) {
    return Status::InvalidArgument("split_dim",
                                   fmt::format("{} has no dim {}", box.ToString(), dim));
  }
  Box part = box;
  Range& range = part.dims[static_cast<size_t>(dim)];
  const Range local = Part(range.size(), CeilDiv(range.size(), count), index);
  range = {range.begin + local.begin, range.begin + local.end};
  return part;
}

Result<Shard> SplitFlat(const Box& box, int64_t index, int64_t count, int64_t piece_numel) {
  SHOAL_RETURN_IF_ERROR(CheckPart("split_flat", index, count));
  const int64_t numel = box.numel();
  const int64_t needed = CeilDiv(numel, count);
  if (piece_numel != 0 && piece_numel < needed) {
    return Status::InvalidArgument(
        "split_flat", fmt::format("{} pieces of {} elements do not hold the {} elements of {}",
                                  count, piece_numel, numel, box.ToString()));
  }
  return Shard{box, Part(numel, piece_numel == 0 ? needed : piece_numel, index)};
}

}  // namespace shoal::layout
