#include "shoal/torch/engine/order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shoal::engine {

void ForwardOrder::Begin() {
  current_.clear();
  cursor_ = 0;
}

std::vector<int64_t> ForwardOrder::Enter(int64_t unit, int64_t depth) {
  current_.push_back(unit);
  const auto begin = record_.begin() + static_cast<std::ptrdiff_t>(cursor_);
  const auto found = std::find(begin, record_.end(), unit);
  if (found == record_.end()) return {};
  cursor_ = static_cast<size_t>(found - record_.begin()) + 1;
  const size_t last = std::min(record_.size(), cursor_ + static_cast<size_t>(depth));
  return {record_.begin() + static_cast<std::ptrdiff_t>(cursor_),
          record_.begin() + static_cast<std::ptrdiff_t>(last)};
}

void ForwardOrder::End() {
  record_ = std::exchange(current_, {});
  backward_cursor_ = record_.size();
}

std::vector<int64_t> ForwardOrder::EnterBackward(int64_t unit, int64_t depth) {
  size_t position = std::min(backward_cursor_, record_.size());
  while (position > 0 && record_[position - 1] != unit) --position;
  if (position == 0) return {};
  backward_cursor_ = position - 1;
  std::vector<int64_t> next;
  for (size_t i = backward_cursor_; i > 0 && static_cast<int64_t>(next.size()) < depth; --i) {
    next.push_back(record_[i - 1]);
  }
  return next;
}

std::vector<int64_t> ForwardOrder::FirstEntries() const {
  std::vector<int64_t> first;
  for (const int64_t unit : record_) {
    if (std::find(first.begin(), first.end(), unit) == first.end()) first.push_back(unit);
  }
  return first;
}

}  // namespace shoal::engine
