#include "shoal/layout/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/layout/intersect.h"
#include "shoal/layout/shard.h"
#include "shoal/layout/tensor_spec.h"

namespace shoal::layout {
namespace {

constexpr std::string_view kOperation = "layout";

Status CheckShape(const TensorSpec& spec) {
  int64_t numel = 1;
  for (const int64_t size : spec.shape) {
    if (size < 0 || __builtin_mul_overflow(numel, std::max<int64_t>(size, 1), &numel)) {
      return Status::InvalidArgument(
          kOperation, fmt::format("tensor '{}' has shape [{}], must not be negative nor exceed "
                                  "int64 elements",
                                  spec.name, fmt::join(spec.shape, ",")));
    }
  }
  return Status();
}

// One rank's shards of one tensor.
Status CheckShards(const std::vector<Shard>& shards, const TensorSpec& spec) {
  for (size_t i = 0; i < shards.size(); ++i) {
    SHOAL_RETURN_IF_ERROR(CheckInside(shards[i], spec.shape));
    for (size_t j = 0; j < i; ++j) {
      if (Intersect(shards[j], shards[i]).empty()) continue;
      return Status::InvalidArgument(
          kOperation,
          fmt::format("shards {} and {} overlap", shards[j].ToString(), shards[i].ToString()));
    }
  }
  return Status();
}

Status CheckTensor(const TensorLayout& tensor, const std::vector<int64_t>& ranks) {
  SHOAL_RETURN_IF_ERROR(CheckShape(tensor.spec));
  if (tensor.shards.size() != ranks.size()) {
    return Status::InvalidArgument(
        kOperation, fmt::format("tensor '{}' has shards for {} ranks, must be {}", tensor.spec.name,
                                tensor.shards.size(), ranks.size()));
  }
  if (tensor.replicas < 1 || tensor.replicas > static_cast<int64_t>(ranks.size())) {
    return Status::InvalidArgument(
        kOperation, fmt::format("tensor '{}' has {} replicas, must be in 1..{}", tensor.spec.name,
                                tensor.replicas, ranks.size()));
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    SHOAL_RETURN_IF_ERROR(
        CheckShards(tensor.shards[i], tensor.spec)
            .WithContext(fmt::format("tensor '{}' on rank {}", tensor.spec.name, ranks[i])));
  }
  return Status();
}

}  // namespace

Layout::Layout(std::vector<int64_t> ranks, std::vector<TensorLayout> tensors)
    : ranks_(std::move(ranks)), tensors_(std::move(tensors)) {}

Result<Layout> Layout::Make(std::vector<int64_t> ranks, std::vector<TensorLayout> tensors) {
  std::unordered_set<int64_t> seen_ranks;
  for (const int64_t rank : ranks) {
    if (!seen_ranks.insert(rank).second) {
      return Status::InvalidArgument(kOperation,
                                     fmt::format("rank {} is repeated, must be distinct", rank));
    }
  }
  std::unordered_set<std::string_view> seen_names;
  for (const TensorLayout& tensor : tensors) {
    if (!seen_names.insert(tensor.spec.name).second) {
      return Status::InvalidArgument(
          kOperation, fmt::format("tensor '{}' is repeated, must be distinct", tensor.spec.name));
    }
    SHOAL_RETURN_IF_ERROR(CheckTensor(tensor, ranks));
  }
  return Layout(std::move(ranks), std::move(tensors));
}

const TensorLayout* Layout::Find(std::string_view name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [name](const TensorLayout& t) { return t.spec.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

int64_t Layout::IndexOf(int64_t rank) const {
  const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
  return found == ranks_.end() ? -1 : std::distance(ranks_.begin(), found);
}

std::string Layout::ToString() const {
  std::string text;
  const auto out = std::back_inserter(text);
  for (const TensorLayout& tensor : tensors_) {
    text += tensor.spec.ToString();
    if (tensor.replicas > 1) fmt::format_to(out, " x{}", tensor.replicas);
    for (size_t i = 0; i < ranks_.size(); ++i) {
      std::vector<std::string> shards;
      for (const Shard& shard : tensor.shards[i]) shards.push_back(shard.ToString());
      if (shards.empty()) shards.emplace_back("-");
      fmt::format_to(out, " {}:{}", ranks_[i], fmt::join(shards, "+"));
    }
    text += '\n';
  }
  return text;
}

}  // namespace shoal::layout
