// OrderHash: a rolling hash of the collectives that this rank issued since the last step. Blocks
// have equal sizes, so ranks that disagree about the order would mix weights without any error; the
// hash rides on the step's all-reduce and gates the update.
//
// Thread-safety: none.
#pragma once

#include <cstdint>

#include "shoal/torch/comm/collectives.h"

namespace shoal::engine {

class OrderHash {
 public:
  void Add(comm::Op op, int64_t unit, int64_t bytes) {
    Mix(static_cast<uint64_t>(op));
    Mix(static_cast<uint64_t>(unit));
    Mix(static_cast<uint64_t>(bytes));
  }
  // 20 bits, so that its sum and the sum of its square over 2^12 ranks are exact in float64.
  double Folded() const {
    uint64_t folded = hash_;
    folded ^= folded >> 40;
    folded ^= folded >> 20;
    return static_cast<double>(folded & 0xFFFFF);
  }
  void Reset() { hash_ = kOffset; }

 private:
  static constexpr uint64_t kOffset = 14695981039346656037ULL;  // FNV-1a
  static constexpr uint64_t kPrime = 1099511628211ULL;

  void Mix(uint64_t value) {
    for (int i = 0; i < 8; ++i) hash_ = (hash_ ^ ((value >> (8 * i)) & 0xFF)) * kPrime;
  }

  uint64_t hash_ = kOffset;
};

}  // namespace shoal::engine
