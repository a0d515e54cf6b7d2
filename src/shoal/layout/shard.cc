#include "shoal/layout/shard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/base/status.h"

namespace shoal::layout {
namespace {

Status Outside(const Shard& shard, std::span<const int64_t> shape, std::string_view why) {
  return Status::InvalidArgument(
      "shard", fmt::format("{} is not inside a tensor of shape [{}]: {}", shard.ToString(),
                           fmt::join(shape, ","), why));
}

// Splits ranges of a box' row-major order into boxes.
class Splitter {
 public:
  explicit Splitter(const Box& box) : box_(box), inner_(box.dims.size() + 1, 1) {
    for (size_t dim = box.dims.size(); dim-- > 0;) {
      inner_[dim] = inner_[dim + 1] * box.dims[dim].size();
    }
  }

  // Appends the boxes of `flat`, a non-empty range of the elements that remain when the dims before
  // `dim` are fixed as in `current`; dims from `dim` on are whole in `current`.
  void Append(size_t dim, Range flat, Box current, std::vector<Box>& boxes) const {
    if (flat.begin == 0 && flat.end == inner_[dim]) {
      boxes.push_back(std::move(current));
      return;
    }
    const int64_t row = inner_[dim + 1];
    const int64_t first = flat.begin / row;
    const int64_t last = (flat.end - 1) / row;
    const int64_t in_first = flat.begin - first * row;
    const int64_t in_last = flat.end - last * row;
    if (first == last) {
      Append(dim + 1, {in_first, in_last}, Rows(current, dim, first, first + 1), boxes);
      return;
    }
    const int64_t whole_begin = in_first == 0 ? first : first + 1;
    const int64_t whole_end = in_last == row ? last + 1 : last;
    if (in_first != 0) {
      Append(dim + 1, {in_first, row}, Rows(current, dim, first, first + 1), boxes);
    }
    if (whole_begin < whole_end) boxes.push_back(Rows(current, dim, whole_begin, whole_end));
    if (in_last != row) {
      Append(dim + 1, {0, in_last}, Rows(current, dim, last, last + 1), boxes);
    }
  }

 private:
  // `current` with rows [begin, end), counted from the box' start, of `dim`.
  Box Rows(const Box& current, size_t dim, int64_t begin, int64_t end) const {
    Box rows = current;
    rows.dims[dim] = {box_.dims[dim].begin + begin, box_.dims[dim].begin + end};
    return rows;
  }

  const Box& box_;
  std::vector<int64_t> inner_;  // elements with the dims before this one fixed
};

}  // namespace

std::string Range::ToString() const { return fmt::format("{}:{}", begin, end); }

int64_t Box::numel() const {
  int64_t numel = 1;
  for (const Range& range : dims) numel *= range.size();
  return numel;
}

std::vector<int64_t> Box::shape() const {
  std::vector<int64_t> shape;
  shape.reserve(dims.size());
  for (const Range& range : dims) shape.push_back(range.size());
  return shape;
}

std::string Box::ToString() const {
  std::vector<std::string> ranges;
  ranges.reserve(dims.size());
  for (const Range& range : dims) ranges.push_back(range.ToString());
  return fmt::format("[{}]", fmt::join(ranges, ","));
}

std::string Shard::ToString() const {
  if (is_whole_box()) return box.ToString();
  return fmt::format("{}{{{}}}", box.ToString(), flat.ToString());
}

Box WholeTensor(std::span<const int64_t> shape) {
  Box box;
  box.dims.reserve(shape.size());
  for (const int64_t size : shape) box.dims.push_back({0, size});
  return box;
}

Shard WholeBox(Box box) {
  const int64_t numel = box.numel();
  return Shard{std::move(box), {0, numel}};
}

Status CheckInside(const Shard& shard, std::span<const int64_t> shape) {
  if (shard.box.dims.size() != shape.size()) {
    return Outside(shard, shape, "another number of dims");
  }
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const Range& range = shard.box.dims[dim];
    if (range.begin < 0 || range.begin > range.end || range.end > shape[dim]) {
      return Outside(shard, shape, fmt::format("the range of dim {}", dim));
    }
  }
  const Range& flat = shard.flat;
  if (flat.begin < 0 || flat.begin > flat.end || flat.end > shard.box.numel()) {
    return Outside(shard, shape,
                   fmt::format("the flat range of a box of {} elements", shard.box.numel()));
  }
  return Status();
}

std::vector<Box> BoxesOf(const Shard& shard) {
  std::vector<Box> boxes;
  if (!shard.flat.empty()) Splitter(shard.box).Append(0, shard.flat, shard.box, boxes);
  return boxes;
}

}  // namespace shoal::layout
