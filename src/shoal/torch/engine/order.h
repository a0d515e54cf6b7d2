// ForwardOrder: the sequence in which units are entered, and what it predicts.
//
// A forward is recorded; the next one is expected to repeat it, and the backward to run it in
// reverse. A prediction that fails costs one gather on demand and never correctness. Ranks that run
// the same model predict the same.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal::engine {

class ForwardOrder {
 public:
  // A forward of the whole model starts.
  void Begin();
  // A unit is entered; the result is the next `depth` units that the last record expects (may be
  // fewer).
  std::vector<int64_t> Enter(int64_t unit, int64_t depth);
  // The forward ended: what was entered becomes the record.
  void End();

  // A unit's backward starts; the result is the `depth` units that were entered before it.
  std::vector<int64_t> EnterBackward(int64_t unit, int64_t depth);

  // Units in the order of their first entry in the last recorded forward.
  std::vector<int64_t> FirstEntries() const;

 private:
  std::vector<int64_t> record_;
  std::vector<int64_t> current_;
  size_t cursor_ = 0;           // into record_: what is expected next
  size_t backward_cursor_ = 0;  // into record_: one past what is expected next
};

}  // namespace shoal::engine
