#include "shoal/torch/engine/arena.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shoal::engine {
namespace {

c10::Stream CurrentStream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

Arena::Arena(at::Device device, std::vector<SlotClass> classes)
    : device_(device), classes_(std::move(classes)) {
  pools_.reserve(classes_.size());  // slots point into it
  for (const SlotClass& spec : classes_) {
    Pool& pool = pools_.emplace_back(Pool{spec, {}});
    for (int64_t i = 0; i < spec.num_slots; ++i) {
      pool.free.push_back(MakeSlot(spec.bytes, false));
      pool.free.back()->pool = &pool.free;
    }
    planned_bytes_ += spec.bytes * spec.num_slots;
  }
}

Slot* Arena::MakeSlot(int64_t bytes, bool overflow) {
  const c10::InferenceMode no_inference(false);
  auto slot = std::make_unique<Slot>();
  slot->buffer = at::empty({bytes}, at::TensorOptions().device(device_).dtype(at::kByte));
  slot->bytes = bytes;
  slot->overflow = overflow;
  slots_.push_back(std::move(slot));
  return slots_.back().get();
}

Arena::Pool* Arena::FindPool(const std::string& purpose, int64_t bytes) {
  for (Pool& pool : pools_) {
    if (pool.spec.bytes == bytes && pool.spec.purpose == purpose) return &pool;
  }
  return nullptr;
}

void Arena::AwaitRelease(Slot* slot) {
  if (slot->released) slot->released->block(CurrentStream(device_));
}

Slot* Arena::TryAcquire(const std::string& purpose, int64_t bytes) {
  Pool* pool = FindPool(purpose, bytes);
  if (pool == nullptr || pool->free.empty()) return nullptr;
  Slot* slot = pool->free.front();
  pool->free.pop_front();
  AwaitRelease(slot);
  return slot;
}

Slot* Arena::Acquire(const std::string& purpose, int64_t bytes) {
  if (Slot* slot = TryAcquire(purpose, bytes)) return slot;
  ++overflow_count_;
  overflow_bytes_ += bytes;
  overflow_peak_bytes_ = std::max(overflow_peak_bytes_, overflow_bytes_);
  return MakeSlot(bytes, true);
}

void Arena::Release(Slot* slot) {
  if (slot->overflow) {
    overflow_bytes_ -= slot->bytes;
    std::erase_if(slots_, [slot](const std::unique_ptr<Slot>& own) { return own.get() == slot; });
    return;
  }
  if (!device_.is_cpu()) {
    if (!slot->released) slot->released.emplace(device_.type());
    slot->released->record(CurrentStream(device_));
  }
  slot->pool->push_back(slot);
}

}  // namespace shoal::engine
