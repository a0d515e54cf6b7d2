// Counts operations for Collectives::Counts(). Not thread-safe: used from the one place that issues
// operations.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "shoal/torch/comm/collectives.h"

namespace shoal::comm {

class OpCounter {
 public:
  void Add(Op op, int64_t bytes) {
    OpCount& count = counts_[static_cast<size_t>(op)];
    ++count.count;
    count.bytes += bytes;
  }
  std::map<std::string, OpCount> ByName() const {
    std::map<std::string, OpCount> result;
    for (size_t i = 0; i < counts_.size(); ++i) result[OpName(static_cast<Op>(i))] = counts_[i];
    return result;
  }
  void Reset() { counts_ = {}; }

 private:
  std::array<OpCount, 4> counts_ = {};
};

}  // namespace shoal::comm
