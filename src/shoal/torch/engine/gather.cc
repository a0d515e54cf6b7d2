#include "shoal/torch/engine/gather.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/plan/unit_packer.h"
#include "shoal/torch/status_error.h"

namespace shoal::engine {

Gatherer::Gatherer(std::vector<std::unique_ptr<Unit>>* units, comm::Collectives* collectives,
                   Arena* arena, OrderHash* hash, Settings settings)
    : units_(units), collectives_(collectives), arena_(arena), hash_(hash), settings_(settings) {}

std::vector<comm::GatherBuffer> Gatherer::Buffers(const Unit& unit, const at::Tensor& full,
                                                  bool trainable_only) const {
  std::vector<comm::GatherBuffer> buffers;
  int64_t piece_offset = 0;
  for (const plan::Segment& segment : unit.layout.segments) {
    const int64_t piece_bytes = segment.piece_numel * DTypeBytes(segment.dtype);
    const int64_t bytes = segment.numel * DTypeBytes(segment.dtype);
    at::Tensor out = full.narrow(0, segment.offset_bytes, bytes);
    at::Tensor in = unit.piece_storage.defined()
                        ? unit.piece_storage.narrow(0, piece_offset, piece_bytes)
                        : out.narrow(0, collectives_->rank() * piece_bytes, piece_bytes);
    piece_offset += piece_bytes;
    if (bytes > 0 && (segment.trainable || !trainable_only)) {
      buffers.push_back({std::move(out), std::move(in)});
    }
  }
  return buffers;
}

std::vector<comm::GatherBuffer> Gatherer::BuffersFor(Unit& unit, const Slot& slot) const {
  for (const auto& [known, buffers] : unit.gather_buffers) {
    if (known == &slot) return buffers;
  }
  std::vector<comm::GatherBuffer> buffers = Buffers(unit, slot.buffer, false);
  if (!slot.overflow) unit.gather_buffers.emplace_back(&slot, buffers);
  return buffers;
}

void Gatherer::Launch(Unit& unit, Slot* slot) {
  hash_->Add(comm::Op::kAllGather, unit.id, unit.layout.total_bytes);
  unit.slot = slot;
  unit.gather = collectives_->AllGather(BuffersFor(unit, *slot), {&unit.name, step_});
  unit.gather_version = version_;
  unit.residency = Residency::kGathering;
}

void Gatherer::AwaitGather(Unit& unit) {
  unit.residency = Residency::kSharded;  // what it stays if the wait throws
  std::exchange(unit.gather, nullptr)->Wait();
}

void Gatherer::Discard(Unit& unit) {
  AwaitGather(unit);
  arena_->Release(std::exchange(unit.slot, nullptr));
}

void Gatherer::CompareRanks(const Unit& unit) {
  const std::string own = unit.name + " (" + std::to_string(unit.layout.total_bytes) + " bytes)";
  const std::vector<std::string> all = collectives_->AllGatherText(own);
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    Throw(Status::Internal("all_gather", "ranks disagree at step " + std::to_string(step_) +
                                             ": rank 0 enters unit " + all[0] + ", rank " +
                                             std::to_string(r) + " enters unit " + all[r] +
                                             ": their forwards differ"));
  }
}

void Gatherer::Unshard(Unit& unit) {
  if (unit.residency == Residency::kUnsharded) return;
  if (unit.residency == Residency::kGathering && unit.gather_version != version_) {
    Discard(unit);
  }
  if (settings_.compare_ranks) CompareRanks(unit);
  if (unit.residency == Residency::kSharded) {
    Launch(unit, arena_->Acquire(kParameterSlots, unit.layout.total_bytes));
  }
  AwaitGather(unit);
  AttachUnit(unit, unit.slot->data());
  unit.residency = Residency::kUnsharded;
}

void Gatherer::Prefetch(Unit& unit) {
  if (settings_.zero_stage != 3 || unit.residency != Residency::kSharded) return;
  if (Slot* slot = arena_->TryAcquire(kParameterSlots, unit.layout.total_bytes)) Launch(unit, slot);
}

void Gatherer::Reshard(Unit& unit) {
  if (settings_.zero_stage != 3 || unit.residency != Residency::kUnsharded) return;
  if (unit.hold || unit.forward_depth > 0) return;
  DetachUnit(unit);
  arena_->Release(std::exchange(unit.slot, nullptr));
  unit.residency = Residency::kSharded;
}

void Gatherer::DiscardPending() {
  for (const auto& unit : *units_) {
    if (unit->residency == Residency::kGathering) Discard(*unit);
  }
}

void Gatherer::ReshardAll() {
  for (const auto& unit : *units_) {
    unit->forward_depth = 0;
    Reshard(*unit);
  }
}

void Gatherer::StartUpdates(bool frozen_too) {
  for (const auto& unit : *units_) {
    if (!unit->trainable() && !frozen_too) continue;
    hash_->Add(comm::Op::kAllGather, unit->id, unit->layout.total_bytes);
    unit->update =
        collectives_->AllGather(Buffers(*unit, unit->resident, !frozen_too), {&unit->name, step_});
    ForbidUnit(*unit);
  }
}

void Gatherer::FinishUpdate(Unit& unit) {
  if (!unit.update) return;
  std::exchange(unit.update, nullptr)->Wait();
  AllowUnit(unit);
}

void Gatherer::FinishUpdates() {
  for (const auto& unit : *units_) FinishUpdate(*unit);
}

}  // namespace shoal::engine
