// Gatherer: makes units' full parameters readable and takes them away again.
//
// Stage 3: unshard is an all-gather into a slot of the arena and one swap of the storage's pointer;
// reshard takes the pointer away. Every write to shards raises the version; a gather of an older
// version is waited for and discarded. Stages 1-2: after a step each unit's updated range is
// all-gathered in place; until that is waited for, the unit's storage refuses access. Stage 0:
// nothing to do.
//
// Ownership: borrows units, collectives and arena from the engine, which outlives it.
// Thread-safety: none; the engine's one-caller rule.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/torch/comm/collectives.h"
#include "shoal/torch/engine/arena.h"
#include "shoal/torch/engine/order_hash.h"
#include "shoal/torch/engine/unit.h"

namespace shoal::engine {

inline constexpr const char* kParameterSlots = "parameters";

class Gatherer {
 public:
  struct Settings {
    int zero_stage = 3;
    bool compare_ranks = false;  // compare what ranks gather before its result is used
  };

  Gatherer(std::vector<std::unique_ptr<Unit>>* units, comm::Collectives* collectives, Arena* arena,
           OrderHash* hash, Settings settings);

  // After this the unit's parameters are readable on the current stream.
  void Unshard(Unit& unit);
  // Starts the gather if the unit is sharded and a planned slot is free.
  void Prefetch(Unit& unit);
  // Takes the parameters away, unless the unit is held or one of its modules runs. Stage 3 only;
  // else nothing.
  void Reshard(Unit& unit);
  // Waits for and drops gathers whose unit was not entered.
  void DiscardPending();
  // Reshard for every unit, running modules or not (an exception left their depth behind).
  void ReshardAll();

  // Shards were written: gathers of the old version are worthless. @pre no gather is pending.
  void RaiseVersion() { ++version_; }

  // Stages 1-2: starts the all-gather of every unit's trainable (or all) segments from its ranks'
  // pieces.
  void StartUpdates(bool frozen_too = false);
  // Waits for that of one unit.
  void FinishUpdate(Unit& unit);
  void FinishUpdates();

  void set_step(int64_t step) { step_ = step; }
  void set_compare_ranks(bool compare) { settings_.compare_ranks = compare; }

 private:
  void Launch(Unit& unit, Slot* slot);
  void AwaitGather(Unit& unit);
  void Discard(Unit& unit);
  std::vector<comm::GatherBuffer> BuffersFor(Unit& unit, const Slot& slot) const;
  void CompareRanks(const Unit& unit);
  std::vector<comm::GatherBuffer> Buffers(const Unit& unit, const at::Tensor& full,
                                          bool trainable_only) const;

  std::vector<std::unique_ptr<Unit>>* units_;
  comm::Collectives* collectives_;
  Arena* arena_;
  OrderHash* hash_;
  Settings settings_;
  int64_t version_ = 0;
  int64_t step_ = 0;
};

}  // namespace shoal::engine
