#include "shoal/layout/covers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/layout/layout.h"
#include "shoal/layout/shard.h"
#include "shoal/layout/subtract.h"
#include "shoal/layout/tensor_spec.h"

namespace shoal::layout {
namespace {

Status Miscounted(const TensorSpec& spec, const Box& where, std::string_view how,
                  int64_t replicas) {
  std::vector<int64_t> element;
  element.reserve(where.dims.size());
  for (const Range& range : where.dims) element.push_back(range.begin);
  return Status::InvalidArgument(
      "covers", fmt::format("element [{}] of {} is held {} than {} time{}", fmt::join(element, ","),
                            spec.ToString(), how, replicas, replicas == 1 ? "" : "s"));
}

}  // namespace

Status Covers(const TensorSpec& spec, std::span<const Shard> shards, int64_t replicas) {
  // layers[k] is what is held at most k times so far; a shard takes each element from the first
  // layer that still has it.
  const Box whole = WholeTensor(spec.shape);
  std::vector<std::vector<Box>> layers(static_cast<size_t>(replicas));
  if (whole.numel() > 0) {
    for (std::vector<Box>& layer : layers) layer.push_back(whole);
  }
  for (const Shard& shard : shards) {
    std::vector<Box> boxes = BoxesOf(shard);
    for (std::vector<Box>& layer : layers) {
      std::vector<Box> rest = Subtract(boxes, layer);
      layer = Subtract(std::move(layer), boxes);
      boxes = std::move(rest);
    }
    if (!boxes.empty()) return Miscounted(spec, boxes[0], "more", replicas);
  }
  for (const std::vector<Box>& layer : layers) {
    if (!layer.empty()) return Miscounted(spec, layer[0], "less", replicas);
  }
  return Status();
}

Status Covers(const Layout& layout) {
  for (const TensorLayout& tensor : layout.tensors()) {
    std::vector<Shard> all;
    for (const std::vector<Shard>& of_rank : tensor.shards) {
      all.insert(all.end(), of_rank.begin(), of_rank.end());
    }
    SHOAL_RETURN_IF_ERROR(Covers(tensor.spec, all, tensor.replicas));
  }
  return Status();
}

}  // namespace shoal::layout
