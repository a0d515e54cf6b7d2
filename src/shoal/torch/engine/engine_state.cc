// Access to an Engine's state: full tensors, pieces for checkpoints, memory.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/plan/unit_packer.h"
#include "shoal/torch/engine/engine.h"
#include "shoal/torch/status_error.h"

namespace shoal::engine {
namespace {

constexpr const char* kParamRole = "param";
constexpr const char* kMasterRole = "master";
constexpr const char* kGradRole = "grad";

int64_t Bytes(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
}

// Appends copies of the parameters that lie in one segment, cut out of its full values.
void AppendParams(const Unit& unit, size_t segment, const at::Tensor& full,
                  std::vector<std::pair<std::string, at::Tensor>>& result) {
  for (const Param& param : unit.params) {
    if (param.slice.segment != static_cast<int64_t>(segment)) continue;
    const at::Tensor view = full.as_strided(param.sizes, param.strides,
                                            full.storage_offset() + param.slice.offset_elements);
    result.emplace_back(param.name, view.clone().cpu());
  }
}

}  // namespace

void Engine::Unshard() {
  RequireOpen("unsharded");
  RecoverFromDeadTask();
  if (unsharded_) Throw(Status::InvalidArgument("unsharded", "already unsharded"));
  unsharded_ = true;
  for (const auto& unit : units_) {
    gatherer_->FinishUpdate(*unit);
    gatherer_->Unshard(*unit);
    unit->hold = true;
  }
}

void Engine::AbsorbWrites(Unit& unit) {
  const int64_t rank = options_.zero_stage == 0 ? 0 : collectives_->rank();
  for (size_t s = 0; s < unit.pieces.size(); ++s) {
    Piece& piece = unit.pieces[s];
    const plan::Segment& segment = unit.layout.segments[s];
    if (options_.zero_stage == 3 && unit.slot != nullptr) {
      const int64_t bytes =
          segment.piece_numel * static_cast<int64_t>(piece.compute.element_size());
      piece.compute.copy_(TypedView(unit.slot->buffer, segment.offset_bytes + rank * bytes,
                                    segment.piece_numel, piece.compute.scalar_type()));
    }
    if (!piece.master.defined() || piece.master.is_same(piece.compute)) continue;
    // A master keeps its precision where its compute copy was not written.
    const at::Tensor kept = piece.master.to(piece.compute.scalar_type()).eq(piece.compute);
    piece.master.copy_(at::where(kept, piece.master, piece.compute.to(piece.master.scalar_type())));
  }
}

void Engine::ReshardAndAbsorb() {
  if (!std::exchange(unsharded_, false) || closed_) return;
  const at::NoGradGuard no_grad;
  for (const auto& unit : units_) {
    AbsorbWrites(*unit);
    unit->hold = false;
    gatherer_->Reshard(*unit);
  }
  gatherer_->RaiseVersion();
}

at::Tensor Engine::PieceOf(const Unit& unit, size_t segment, const std::string& role) const {
  const Piece& piece = unit.pieces[segment];
  if (role == kGradRole) return piece.grad;
  if (role == kMasterRole) return piece.master;
  const std::vector<std::string>& names = stepper_->state_names();
  for (size_t i = 0; i < piece.states.size(); ++i) {
    if (names[i] == role) return piece.states[i];
  }
  return {};
}

std::vector<std::pair<std::string, at::Tensor>> Engine::FullParams(bool keep) {
  std::vector<std::pair<std::string, at::Tensor>> result;
  for (const auto& unit : units_) {
    gatherer_->FinishUpdate(*unit);
    gatherer_->Unshard(*unit);
    for (const Param& param : unit->params) {
      if (!keep) continue;
      at::Tensor copy = param.tensor.detach().clone().cpu();
      result.emplace_back(param.name, copy);
      for (const std::string& alias : param.aliases) result.emplace_back(alias, copy);
    }
    gatherer_->Reshard(*unit);
  }
  return result;
}

std::vector<std::pair<std::string, at::Tensor>> Engine::FullState(const std::string& role,
                                                                  bool keep) {
  RequireOpen("full_state");
  RecoverFromDeadTask();
  const at::NoGradGuard no_grad;
  if (role == kParamRole) return FullParams(keep);
  const auto& names = stepper_->state_names();
  if (role != kMasterRole && role != kGradRole &&
      std::find(names.begin(), names.end(), role) == names.end()) {
    Throw(Status::InvalidArgument("full_state", "no state is called '" + role + "'"));
  }
  std::vector<std::pair<std::string, at::Tensor>> result;
  const bool sharded = options_.zero_stage != 0;
  const double divisor = static_cast<double>(collectives_->size()) *
                         static_cast<double>(options_.accumulation) * loss_scale();
  for (const auto& unit : units_) {
    for (size_t s = 0; s < unit->pieces.size(); ++s) {
      const at::Tensor piece = PieceOf(*unit, s, role);
      if (!piece.defined()) continue;
      at::Tensor full = piece;
      if (sharded) {
        full = at::empty({unit->layout.segments[s].numel}, piece.options());
        collectives_->AllGather({{full, piece}}, {&unit->name, attempts_})->Wait();
      }
      if (!keep) continue;
      AppendParams(*unit, s, role == kGradRole ? full.div(divisor) : full, result);
    }
  }
  return result;
}

at::Tensor Engine::FullGradient(const std::string& name) {
  bool known = false;
  for (const auto& unit : units_) {
    for (const Param& param : unit->params) known = known || param.name == name;
  }
  if (!known) Throw(Status::InvalidArgument("grad", "no parameter is called '" + name + "'"));
  for (auto& [param, grad] : FullState(kGradRole, true)) {
    if (param == name) return grad;
  }
  return {};
}

std::vector<StatePiece> Engine::StatePieces() {
  RequireOpen("save");
  RecoverFromDeadTask();
  gatherer_->FinishUpdates();
  const int64_t rank = options_.zero_stage == 0 ? 0 : collectives_->rank();
  std::vector<StatePiece> pieces;
  for (const auto& unit : units_) {
    for (const Param& param : unit->params) {
      const LocalRange range = RangeOf(*unit, param, rank);
      const Piece& piece = unit->pieces[static_cast<size_t>(param.slice.segment)];
      const auto add = [&](const std::string& role, const at::Tensor& tensor) {
        pieces.push_back({param.name, role, tensor.narrow(0, range.offset, range.numel),
                          param.sizes, range.flat_begin, options_.zero_stage == 0});
      };
      // Where the parameter is its own master, one copy serves both.
      add(kParamRole, piece.compute);
      if (!piece.master.defined()) continue;
      if (!piece.master.is_same(piece.compute)) add(kMasterRole, piece.master);
      for (size_t i = 0; i < piece.states.size(); ++i)
        add(stepper_->state_names()[i], piece.states[i]);
    }
  }
  return pieces;
}

void Engine::StateLoaded() {
  const at::NoGradGuard no_grad;
  gatherer_->DiscardPending();
  gatherer_->ReshardAll();
  reducer_->StartWindow();
  gatherer_->RaiseVersion();
  if (options_.zero_stage != 1 && options_.zero_stage != 2) return;
  gatherer_->StartUpdates(/*frozen_too=*/true);
  gatherer_->FinishUpdates();
}

void Engine::SetCounters(const Counters& counters) {
  counters_ = counters;
  counters_.micro_step = 0;
  attempts_ = counters.global_step + counters.skipped_steps;
}

std::vector<int64_t> Engine::ParamUpdates() const {
  std::vector<int64_t> updates(static_cast<size_t>(num_trainable_), 0);
  for (const auto& unit : units_) {
    for (const Param& param : unit->params) {
      if (param.index >= 0) updates[static_cast<size_t>(param.index)] = param.updates;
    }
  }
  return updates;
}

void Engine::SetParamUpdates(const std::vector<int64_t>& updates) {
  if (static_cast<int64_t>(updates.size()) != num_trainable_) {
    Throw(Status::InvalidArgument(
        "load", "the checkpoint counts updates of " + std::to_string(updates.size()) +
                    " parameters, the model has " + std::to_string(num_trainable_)));
  }
  for (const auto& unit : units_) {
    for (Param& param : unit->params) {
      if (param.index >= 0) param.updates = updates[static_cast<size_t>(param.index)];
    }
  }
}

MemoryUse Engine::memory() const {
  MemoryUse use;
  for (const auto& unit : units_) {
    use.padding += unit->layout.padding_bytes;
    use.params += Bytes(unit->resident) + Bytes(unit->piece_storage);
    for (const Piece& piece : unit->pieces) {
      if (piece.master.defined() && !piece.master.is_same(piece.compute))
        use.master += Bytes(piece.master);
      for (const at::Tensor& state : piece.states) use.optimizer += Bytes(state);
      if (options_.zero_stage != 0) use.gradients += Bytes(piece.grad);
    }
  }
  use.gradients += reducer_->unreduced_bytes();
  use.arena = arena_->planned_bytes();
  use.overflow_peak = arena_->overflow_peak_bytes();
  use.overflow_count = arena_->overflow_count();
  return use;
}

}  // namespace shoal::engine
