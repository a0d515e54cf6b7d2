#include "shoal/torch/engine/reduce.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shoal/plan/arena_plan.h"
#include "shoal/torch/dtype.h"
#include "shoal/torch/engine/copy.h"

namespace shoal::engine {

ReduceWhen WhenToReduce(const Options& options) {
  const bool accumulates = options.accumulation > 1;
  if (options.zero_stage == 0) return ReduceWhen::kAtBoundary;
  if (options.zero_stage == 1 && accumulates) return ReduceWhen::kAtBoundary;
  if (options.reduce_unreduced && accumulates) return ReduceWhen::kAtBoundary;
  return ReduceWhen::kEachBackward;
}

Reducer::Reducer(std::vector<std::unique_ptr<Unit>>* units, comm::Collectives* collectives,
                 Arena* arena, OrderHash* hash, const Options& options)
    : units_(units),
      collectives_(collectives),
      arena_(arena),
      hash_(hash),
      zero_stage_(options.zero_stage),
      when_(WhenToReduce(options)),
      reduce_dtype_(options.reduce_dtype),
      sum_dtype_(options.accumulation > 1 ? options.accumulate_dtype : options.reduce_dtype),
      states_(units->size()) {
  for (const auto& unit : *units_) {
    State& state = states_[Index(*unit)];
    state.filled.assign(unit->params.size(), false);
    state.received.assign(unit->params.size(), false);
    if (when_ != ReduceWhen::kAtBoundary || !unit->trainable()) continue;
    const int64_t bytes = plan::GradientBytes(unit->layout, FromTorch(sum_dtype_));
    const at::Tensor buffer =
        at::zeros({bytes}, at::TensorOptions().device(options.device).dtype(at::kByte));
    state.sum = MakeGradViews(*unit, plan::GradientOffsets(unit->layout, FromTorch(sum_dtype_)),
                              buffer, sum_dtype_);
    unreduced_bytes_ += bytes;
    if (zero_stage_ != 0) continue;
    for (size_t s = 0; s < unit->pieces.size(); ++s) unit->pieces[s].grad = state.sum.segments[s];
  }
  for (auto unit = units_->rbegin(); unit != units_->rend(); ++unit) {
    if ((*unit)->trainable()) order_.push_back((*unit)->id);
  }
}

void Reducer::SetForwardOrder(const std::vector<int64_t>& first_entries) {
  std::vector<int64_t> order;
  for (auto id = first_entries.rbegin(); id != first_entries.rend(); ++id) {
    if ((*units_)[static_cast<size_t>(*id)]->trainable()) order.push_back(*id);
  }
  for (auto unit = units_->rbegin(); unit != units_->rend(); ++unit) {
    const int64_t id = (*unit)->id;
    if ((*unit)->trainable() && std::find(order.begin(), order.end(), id) == order.end()) {
      order.push_back(id);
    }
  }
  order_ = std::move(order);
}

void Reducer::BeginBackward(bool boundary) {
  boundary_ = boundary;
  next_ = 0;
  took_any_ = false;
  for (State& state : states_) {
    state.launched = false;
    state.num_received = 0;
    std::fill(state.received.begin(), state.received.end(), false);
  }
}

Slot* Reducer::AcquireGradientSlot(const char* purpose, int64_t bytes) {
  while (true) {
    if (Slot* slot = arena_->TryAcquire(purpose, bytes)) return slot;
    if (in_flight_.empty()) return arena_->Acquire(purpose, bytes);
    WaitForOldest();
  }
}

std::shared_ptr<const GradViews> Reducer::ViewsOf(const Unit& unit, State& state,
                                                  const Slot& slot) const {
  for (const auto& [known, views] : state.views) {
    if (known == &slot) return views;
  }
  auto views = std::make_shared<const GradViews>(
      MakeGradViews(unit, unit.grad_offsets, slot.buffer, reduce_dtype_));
  if (!slot.overflow) state.views.emplace_back(&slot, views);
  return views;
}

void Reducer::StartFill(Unit& unit, State& state) {
  state.slot = AcquireGradientSlot(kGradientSlots, unit.grad_bytes);
  state.fill = ViewsOf(unit, state, *state.slot);
  std::fill(state.filled.begin(), state.filled.end(), false);
}

void Reducer::Take(Unit& unit, int64_t param, const at::Tensor& grad) {
  State& state = states_[Index(unit)];
  const auto i = static_cast<size_t>(param);
  took_any_ = true;
  unit.params[i].has_grad = true;
  const bool sums = FillsSum(state);
  if (!sums && state.slot == nullptr) StartFill(unit, state);
  const at::Tensor& view = sums ? state.sum.params[i] : state.fill->params[i];
  if (grad.is_sparse() && !state.filled[i]) view.zero_();
  if (grad.is_sparse() || state.filled[i]) {
    view.add_(grad);
  } else {
    CopyInto(view, grad);
  }
  state.filled[i] = true;
  if (!state.received[i]) {
    state.received[i] = true;
    if (++state.num_received == unit.num_trainable && !state.launched) LaunchReady();
  }
}

void Reducer::LaunchReady() {
  if (when_ == ReduceWhen::kAtBoundary && !boundary_) return;
  for (; next_ < order_.size(); ++next_) {
    Unit& unit = *(*units_)[static_cast<size_t>(order_[next_])];
    const State& state = states_[Index(unit)];
    const bool complete = state.num_received == unit.num_trainable;
    const bool absent = !state.entered && state.num_received == 0;
    if (!complete && !absent) return;
    Launch(unit);
  }
}

void Reducer::ZeroMissing(const Unit& unit, State& state, const GradViews& views) {
  for (size_t i = 0; i < unit.params.size(); ++i) {
    if (unit.params[i].trainable && !state.filled[i]) views.params[i].zero_();
  }
}

void Reducer::Launch(Unit& unit) {
  State& state = states_[Index(unit)];
  InFlight flight;
  std::shared_ptr<const GradViews> slot_views;
  if (FillsSum(state)) {
    ZeroMissing(unit, state, state.sum);
    if (sum_dtype_ != reduce_dtype_) {
      StartFill(unit, state);
      for (size_t s = 0; s < unit.pieces.size(); ++s) {
        if (state.fill->segments[s].defined()) state.fill->segments[s].copy_(state.sum.segments[s]);
      }
      state.slot->zeroed_for = unit.padding_key;  // copied from the sum, where padding is zero
      slot_views = std::exchange(state.fill, nullptr);
      flight.slots.push_back(std::exchange(state.slot, nullptr));
    }
    state.reduced = true;
  } else {
    if (state.slot == nullptr) StartFill(unit, state);
    ZeroMissing(unit, state, *state.fill);
    if (state.slot->zeroed_for != unit.padding_key) {
      ZeroPadding(unit, *state.fill);
      state.slot->zeroed_for = unit.padding_key;
    }
    slot_views = std::exchange(state.fill, nullptr);
    flight.slots.push_back(std::exchange(state.slot, nullptr));
  }
  const GradViews& source = slot_views ? *slot_views : state.sum;
  std::fill(state.filled.begin(), state.filled.end(), false);
  for (size_t s = 0; s < unit.pieces.size(); ++s) {
    if (source.segments[s].defined()) LaunchSegment(unit, s, source, state.piece_has_data, flight);
  }
  state.piece_has_data = true;
  state.launched = true;
  in_flight_.push_back(std::move(flight));
}

void Reducer::LaunchSegment(Unit& unit, size_t segment, const GradViews& source, bool accumulate,
                            InFlight& flight) {
  const at::Tensor& full = source.segments[segment];
  const at::Tensor& dst = unit.pieces[segment].grad;
  const comm::OpTag tag{&unit.name, step_};
  const auto bytes = static_cast<int64_t>(full.nbytes());
  if (zero_stage_ == 0) {
    hash_->Add(comm::Op::kAllReduce, unit.id, bytes);
    flight.pending.push_back(collectives_->AllReduce(full, tag));
    if (full.is_same(dst)) return;
    flight.finish = [full, dst, accumulate, previous = std::move(flight.finish)] {
      if (previous) previous();
      if (accumulate) {
        dst.add_(full);
      } else {
        dst.copy_(full);
      }
    };
    return;
  }
  hash_->Add(comm::Op::kReduceScatter, unit.id, bytes);
  at::Tensor scratch;
  if (unit.scratch_bytes > 0 && collectives_->NeedsScratch(full, dst, accumulate)) {
    Slot* slot = AcquireGradientSlot(kScratchSlots, unit.scratch_bytes);
    flight.slots.push_back(slot);
    if (!slot->typed.defined() || slot->typed.scalar_type() != full.scalar_type()) {
      slot->typed =
          TypedView(slot->buffer, 0, unit.scratch_bytes / static_cast<int64_t>(full.element_size()),
                    full.scalar_type());
    }
    scratch = slot->typed;
  }
  flight.pending.push_back(collectives_->ReduceScatter(full, scratch, dst, accumulate, tag));
}

void Reducer::WaitForOldest() {
  InFlight flight = std::move(in_flight_.front());
  in_flight_.pop_front();
  for (const auto& pending : flight.pending) pending->Wait();
  if (flight.finish) flight.finish();
  for (Slot* slot : flight.slots) arena_->Release(slot);
}

void Reducer::FinishBackward() {
  if (when_ == ReduceWhen::kEachBackward || boundary_) {
    for (; next_ < order_.size(); ++next_) Launch(*(*units_)[static_cast<size_t>(order_[next_])]);
    for (const int64_t id : order_) {
      if (states_[static_cast<size_t>(id)].slot != nullptr) {
        Launch(*(*units_)[static_cast<size_t>(id)]);
      }
    }
  }
  while (!in_flight_.empty()) WaitForOldest();
}

void Reducer::Abort() {
  while (!in_flight_.empty()) WaitForOldest();
  for (State& state : states_) {
    if (state.slot != nullptr) arena_->Release(std::exchange(state.slot, nullptr));
    state.fill = nullptr;
  }
  StartWindow();
}

void Reducer::StartWindow() {
  for (const auto& unit : *units_) {
    State& state = states_[Index(*unit)];
    std::fill(state.filled.begin(), state.filled.end(), false);
    state.reduced = false;
    state.entered = false;
    state.piece_has_data = false;
    for (Param& param : unit->params) param.has_grad = false;
  }
}

void ZeroPadding(const Unit& unit, const GradViews& views) {
  for (size_t s = 0; s < views.segments.size(); ++s) {
    const at::Tensor& segment = views.segments[s];
    if (!segment.defined()) continue;
    std::vector<std::pair<int64_t, int64_t>> used;
    for (const Param& param : unit.params) {
      if (param.slice.segment == static_cast<int64_t>(s)) {
        used.emplace_back(param.slice.offset_elements, param.slice.numel);
      }
    }
    std::sort(used.begin(), used.end());
    int64_t position = 0;
    for (const auto& [offset, numel] : used) {
      if (offset > position) segment.narrow(0, position, offset - position).zero_();
      position = std::max(position, offset + numel);
    }
    const int64_t rest = segment.numel() - position;
    if (rest > 0) segment.narrow(0, position, rest).zero_();
  }
}

}  // namespace shoal::engine
