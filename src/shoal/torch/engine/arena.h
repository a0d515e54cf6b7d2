// Arena: the memory that full parameters and full gradients pass through, allocated once when the
// engine is built.
//
// Size classes of equal slots; the number of slots comes from the plan (plan/arena_plan.h) and is
// printed with it. Demand beyond the plan (unsharded(), create_graph, modules out of order) takes
// overflow memory from torch's allocator, counted, and never blocks. Which slot is given depends
// only on the order of Acquire and Release, so addresses repeat from step to step.
//
// Streams: a released slot carries an event of the stream that used it; Acquire makes the current
// stream wait for it. Thread-safety: none; used under the engine's one-caller rule.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shoal::engine {

// A piece of arena (or overflow) memory. Owned by the Arena; `bytes` is its class.
struct Slot {
  at::Tensor buffer;  // uint8, `bytes` long
  at::Tensor typed;   // a view of all of it in the dtype that it was last used in
  int64_t bytes = 0;
  bool overflow = false;              // from torch's allocator, freed on release
  std::deque<Slot*>* pool = nullptr;  // where it goes back to; null for overflow
  const void* zeroed_for = nullptr;   // the padding pattern that is known to be zero in it
  std::optional<c10::Event> released;

  void* data() const { return buffer.mutable_data_ptr(); }
};

struct SlotClass {
  std::string
      purpose;  // "parameters", "gradients", "reduce scratch": slots are not shared across purposes
  int64_t bytes = 0;
  int64_t num_slots = 0;
};

class Arena {
 public:
  // Allocates all slots on `device`, outside inference mode. Torch's out-of-memory error passes
  // through.
  Arena(at::Device device, std::vector<SlotClass> classes);

  // A slot of `purpose` with exactly `bytes`: a free one, else overflow memory.
  Slot* Acquire(const std::string& purpose, int64_t bytes);
  // A free slot, or null: never overflow (prefetches).
  Slot* TryAcquire(const std::string& purpose, int64_t bytes);
  void Release(Slot* slot);

  int64_t planned_bytes() const { return planned_bytes_; }
  // Overflow: bytes in use now, the highest so far, and how often a slot had to be made.
  int64_t overflow_bytes() const { return overflow_bytes_; }
  int64_t overflow_peak_bytes() const { return overflow_peak_bytes_; }
  int64_t overflow_count() const { return overflow_count_; }
  const std::vector<SlotClass>& classes() const { return classes_; }

 private:
  struct Pool {
    SlotClass spec;
    std::deque<Slot*> free;
  };

  Pool* FindPool(const std::string& purpose, int64_t bytes);
  Slot* MakeSlot(int64_t bytes, bool overflow);
  void AwaitRelease(Slot* slot);

  at::Device device_;
  std::vector<SlotClass> classes_;
  std::vector<Pool> pools_;
  std::vector<std::unique_ptr<Slot>> slots_;
  int64_t planned_bytes_ = 0;
  int64_t overflow_bytes_ = 0;
  int64_t overflow_peak_bytes_ = 0;
  int64_t overflow_count_ = 0;
};

}  // namespace shoal::engine
