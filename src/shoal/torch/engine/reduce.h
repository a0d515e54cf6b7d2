// Reducer: takes gradients from autograd, one copy each, and sums them over ranks into the units'
// gradient pieces.
//
// [Note: when gradients are reduced]
// "Each backward": stages 2 and 3, and stage 1 without accumulation. A unit's gradients are copied
// into a slot of the arena (the copy is the cast to the reduce dtype); when the last one has come,
// the slot is reduce-scattered into the unit's piece, added if the piece holds earlier
// micro-batches. "At the boundary": stage 0, stage 1 with accumulation, stage 3 with
// accumulate="unreduced". Gradients are summed in a buffer of the unit's own; in the last
// micro-batch's backward that buffer is reduced once. A gradient that comes after its unit was
// reduced in this backward (reentrant checkpointing of a module called twice) is taken into a fresh
// slot and reduced at the end of the backward.
//
// [Note: canonical order] Reduces go out in one order on every rank: the reverse of the agreed
// forward order, at first the order of construction. A unit that is not complete holds back those
// behind it; at the end of the backward all units that remain are reduced, zeros standing in for
// gradients that never came. Units that no forward of this step entered do not hold back.
//
// Ownership: borrows units, collectives and arena. Thread-safety: none; the engine's one-caller
// rule.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "shoal/torch/comm/collectives.h"
#include "shoal/torch/engine/arena.h"
#include "shoal/torch/engine/options.h"
#include "shoal/torch/engine/order_hash.h"
#include "shoal/torch/engine/unit.h"

namespace shoal::engine {

inline constexpr const char* kGradientSlots = "gradients";
inline constexpr const char* kScratchSlots = "reduce scratch";

// See [Note: when gradients are reduced]
enum class ReduceWhen {
  kEachBackward,
  kAtBoundary,
};
ReduceWhen WhenToReduce(const Options& options);

class Reducer {
 public:
  Reducer(std::vector<std::unique_ptr<Unit>>* units, comm::Collectives* collectives, Arena* arena,
          OrderHash* hash, const Options& options);

  // `boundary`: this backward belongs to the last micro-batch of the step.
  void BeginBackward(bool boundary);
  // Takes the gradient of params[param] of `unit` (same shape as the parameter, any real dtype,
  // dense or sparse).
  void Take(Unit& unit, int64_t param, const at::Tensor& grad);
  // Reduces what remains and waits for everything. `took_any` of this backward: took_any().
  void FinishBackward();
  // A forward of this step entered the unit.
  void MarkEntered(const Unit& unit) { states_[Index(unit)].entered = true; }

  // Waits for what is in flight and forgets all gradients since the last step.
  void Abort();
  // The step used the gradients: start anew.
  void StartWindow();

  bool took_any() const { return took_any_; }
  // The order that all ranks agreed on: units by first entry in the forward.
  void SetForwardOrder(const std::vector<int64_t>& first_entries);
  void set_step(int64_t step) { step_ = step; }

  // Bytes of the per-unit buffers of kAtBoundary.
  int64_t unreduced_bytes() const { return unreduced_bytes_; }
  // For stage 0: views of the summed, reduced gradients in the shape of the parameters.
  const GradViews& SummedViews(const Unit& unit) const { return states_[Index(unit)].sum; }

 private:
  struct State {
    std::shared_ptr<const GradViews> fill;  // views of `slot`, the slot being filled
    Slot* slot = nullptr;
    // Views made before, by slot: the arena hands out the same few again and again.
    std::vector<std::pair<const Slot*, std::shared_ptr<const GradViews>>> views;
    std::vector<bool>
        filled;     // parameters whose slice of `fill` (or, kAtBoundary, `sum`) holds gradients
    GradViews sum;  // kAtBoundary: the unit's own buffer, accumulate dtype
    int64_t num_received = 0;  // parameters whose gradient came in this backward
    std::vector<bool> received;
    bool launched = false;  // reduced in this backward
    bool reduced = false;   // kAtBoundary: `sum` was reduced in this window
    bool entered = false;
    bool piece_has_data = false;  // piece.grad holds gradients of this window
  };
  struct InFlight {
    std::vector<std::unique_ptr<comm::Pending>> pending;
    std::function<void()> finish;
    std::vector<Slot*> slots;
  };

  static size_t Index(const Unit& unit) { return static_cast<size_t>(unit.id); }
  bool FillsSum(const State& state) const {
    return when_ == ReduceWhen::kAtBoundary && !state.reduced;
  }
  void StartFill(Unit& unit, State& state);
  std::shared_ptr<const GradViews> ViewsOf(const Unit& unit, State& state, const Slot& slot) const;
  void LaunchReady();
  void Launch(Unit& unit);
  void LaunchSegment(Unit& unit, size_t segment, const GradViews& source, bool accumulate,
                     InFlight& flight);
  void WaitForOldest();
  void ZeroMissing(const Unit& unit, State& state, const GradViews& views);
  Slot* AcquireGradientSlot(const char* purpose, int64_t bytes);

  std::vector<std::unique_ptr<Unit>>* units_;
  comm::Collectives* collectives_;
  Arena* arena_;
  OrderHash* hash_;
  int zero_stage_;
  ReduceWhen when_;
  at::ScalarType reduce_dtype_;
  at::ScalarType sum_dtype_;
  std::vector<State> states_;
  std::vector<int64_t> order_;  // [Note: canonical order]
  size_t next_ = 0;             // into order_
  bool boundary_ = true;
  bool took_any_ = false;
  std::deque<InFlight> in_flight_;
  int64_t step_ = 0;
  int64_t unreduced_bytes_ = 0;
};

// Zeroes what lies between and behind the parameters of the trainable segments.
void ZeroPadding(const Unit& unit, const GradViews& views);

}  // namespace shoal::engine
