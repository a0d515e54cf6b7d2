// Forward, backward and step. Construction and state access are in engine_build.cc and
// engine_state.cc.
#include "shoal/torch/engine/engine.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/log.h"
#include "shoal/base/status.h"
#include "shoal/config/config.h"
#include "shoal/optim/optimizers.h"
#include "shoal/optim/schedule.h"
#include "shoal/torch/status_error.h"

namespace shoal::engine {

// Owned by the end-of-task callback of a bare backward. Autograd drops callbacks that it does not
// run, so a destruction without Finish means that the graph task died of an exception.
class Engine::EndOfTask {
 public:
  explicit EndOfTask(std::weak_ptr<Engine> engine) : engine_(std::move(engine)) {}
  EndOfTask(const EndOfTask&) = delete;
  EndOfTask& operator=(const EndOfTask&) = delete;
  ~EndOfTask() {
    if (finished_) return;
    if (const auto engine = engine_.lock()) engine->task_died_ = true;
  }
  void Finish() {
    if (const auto engine = engine_.lock()) engine->FinishBackward();
    finished_ = true;
  }

 private:
  std::weak_ptr<Engine> engine_;
  bool finished_ = false;
};

void Engine::RequireOpen(const char* operation) const {
  if (closed_) Throw(Status::Cancelled(operation, "the engine is closed"));
}

void Engine::RecoverFromDeadTask() {
  if (task_died_) AbortBackward();
}

void Engine::BeginForward() {
  RequireOpen("forward");
  if (CurrentGraphTask() < 0) RecoverFromDeadTask();
  if (forward_depth_++ > 0) return;
  order_.Begin();
}

void Engine::EndForward(const std::vector<at::Tensor>& outputs) {
  if (closed_ || forward_depth_ == 0) return;
  if (--forward_depth_ > 0) return;
  order_.End();
  for (const at::Tensor& output : outputs) HookOutput(output, weak_from_this(), kModel);
  if (CurrentGraphTask() >= 0) return;
  gatherer_->DiscardPending();
  gatherer_->ReshardAll();
  for (auto& stack : calls_) stack.clear();
}

void Engine::EnterUnit(int64_t id, std::vector<at::Tensor>& inputs) {
  RequireOpen("forward");
  Unit& unit = UnitAt(id);
  const bool in_backward = CurrentGraphTask() >= 0;
  if (!in_backward) RecoverFromDeadTask();
  for (const Param& param : unit.params) {
    if (param.tensor.storage().unsafeGetStorageImpl() != param.storage.unsafeGetStorageImpl()) {
      Throw(Status::InvalidArgument("forward", "parameter '" + param.name + "' of unit '" +
                                                   unit.name +
                                                   "' was given other data (p.data = ..., .to()); "
                                                   "write into it inside engine.unsharded(...)"));
    }
  }
  reducer_->MarkEntered(unit);
  gatherer_->FinishUpdate(unit);
  if (options_.zero_stage != 3) return;
  gatherer_->Unshard(unit);
  ++unit.forward_depth;
  if (!in_backward && forward_depth_ > 0) {
    for (const int64_t next : order_.Enter(id, options_.prefetch_depth))
      gatherer_->Prefetch(UnitAt(next));
  }
  Call call;
  if (!inputs.empty() && at::GradMode::is_enabled()) {
    call.originals = inputs;
    inputs = WrapInputs(inputs, weak_from_this(), id);
    call.wrapped = inputs;
    for (const at::Tensor& tensor : inputs) {
      call.versions.push_back(static_cast<int64_t>(tensor._version()));
    }
  }
  calls_[static_cast<size_t>(id)].push_back(std::move(call));
}

void Engine::LeaveUnit(int64_t id, const std::vector<at::Tensor>& outputs) {
  if (closed_ || options_.zero_stage != 3) return;
  Unit& unit = UnitAt(id);
  auto& stack = calls_[static_cast<size_t>(id)];
  if (stack.empty()) return;  // its EnterUnit failed
  const Call call = std::move(stack.back());
  stack.pop_back();
  --unit.forward_depth;
  PropagateInPlace(call.originals, call.wrapped, call.versions, unit.name);
  for (const at::Tensor& output : outputs) HookOutput(output, weak_from_this(), id);
  if (CurrentGraphTask() < 0) gatherer_->Reshard(unit);
}

double Engine::loss_scale() const { return loss_scaler_ ? loss_scaler_->scale() : 1.0; }

void Engine::BeginBackward() {
  RequireOpen("backward");
  RecoverFromDeadTask();
  if (backward_ != Backward::kNone) {
    Throw(Status::InvalidArgument("backward", "another backward of this engine is running"));
  }
  if (options_.groups.empty()) {
    Throw(Status::InvalidArgument("backward", "the engine was built without an optimizer"));
  }
  backward_ = Backward::kBracketed;
  graph_kept_ = false;
  reducer_->BeginBackward(is_boundary());
}

// Called by every hook: the first of a bare backward opens it. Hooks of a graph task inside another
// (reentrant checkpointing) find it open, so that only the outermost task's end finishes the
// backward.
void Engine::JoinBackward() {
  RequireOpen("backward");
  if (at::GradMode::is_enabled()) graph_kept_ = true;
  if (task_died_) AbortBackward();
  if (backward_ != Backward::kNone) return;
  BeginBackward();
  backward_ = Backward::kBare;
  auto end = std::make_shared<EndOfTask>(weak_from_this());
  torch::autograd::Engine::get_default_engine().queue_callback([end] { end->Finish(); });
}

void Engine::OnModelOutputGradient() { JoinBackward(); }

void Engine::OnUnitOutputGradient(int64_t id) {
  JoinBackward();
  const at::NoGradGuard no_grad;
  Unit& unit = UnitAt(id);
  if (graph_kept_) unit.hold = true;
  gatherer_->Unshard(unit);
  for (const int64_t next : order_.EnterBackward(id, options_.prefetch_depth)) {
    gatherer_->Prefetch(UnitAt(next));
  }
}

void Engine::OnUnitInputGradients(int64_t id) { gatherer_->Reshard(UnitAt(id)); }

void Engine::OnParamGradient(int64_t id, int64_t index) {
  JoinBackward();
  const at::NoGradGuard no_grad;
  Unit& unit = UnitAt(id);
  at::Tensor& grad = unit.params[static_cast<size_t>(index)].tensor.mutable_grad();
  if (!grad.defined()) return;
  reducer_->Take(unit, index, grad);
  grad.reset();
}

void Engine::EndBackward() {
  if (backward_ == Backward::kBracketed) FinishBackward();
}

void Engine::FinishBackward() {
  const at::NoGradGuard no_grad;
  const bool asked = backward_ == Backward::kBracketed;
  backward_ = Backward::kNone;
  // torch.autograd.grad() of inputs leaves no gradients: nothing to reduce, and no micro-batch of a
  // step.
  if (asked || reducer_->took_any()) {
    reducer_->FinishBackward();
    ++backwards_;
  }
  gatherer_->DiscardPending();
  if (!graph_kept_ && !unsharded_) {
    for (const auto& unit : units_) unit->hold = false;
  }
  gatherer_->ReshardAll();
}

void Engine::AbortBackward() {
  const at::NoGradGuard no_grad;
  task_died_ = false;
  backward_ = Backward::kNone;
  for (const auto& unit : units_) {
    for (Param& param : unit->params) param.tensor.mutable_grad().reset();
    unit->hold = unsharded_;
  }
  backwards_ = 0;
  counters_.micro_step = 0;
  reducer_->Abort();
  gatherer_->DiscardPending();
  gatherer_->ReshardAll();
}

void Engine::Reset() {
  RequireOpen("reset");
  forward_depth_ = 0;
  for (auto& stack : calls_) stack.clear();
  AbortBackward();
}

std::vector<double> Engine::LearningRates() const {
  std::vector<double> rates;
  rates.reserve(options_.groups.size());
  for (const optim::Hyper& hyper : options_.groups) {
    rates.push_back(optim::LearningRate(options_.schedule, hyper.lr, counters_.global_step));
  }
  return rates;
}

void Engine::HandleNonFinite(const StepResult& result) {
  ++counters_.skipped_steps;
  const std::string what =
      "the gradient norm of step " + std::to_string(counters_.global_step) + " is " +
      std::to_string(result.grad_norm) +
      (result.first_non_finite.empty()
           ? std::string("")
           : "; first non-finite gradient on this rank: '" + result.first_non_finite + "'");
  if (options_.non_finite == config::NonFinite::kRaise) {
    Throw(Status::Internal("step", what + "; nothing was updated"));
  }
  if (std::exchange(warned_non_finite_, true)) return;
  Log(LogLevel::kWarning, "engine", what + "; the step is skipped (said once, see skipped_steps)");
}

bool Engine::Step() {
  RequireOpen("step");
  RecoverFromDeadTask();
  const at::NoGradGuard no_grad;
  if (backward_ != Backward::kNone) {
    Throw(Status::InvalidArgument("step", "called while a backward is running"));
  }
  if (backwards_ == 0) {
    Throw(Status::InvalidArgument("step", "no backward since the last step"));
  }
  backwards_ = 0;
  if (++counters_.micro_step < options_.accumulation) return false;
  counters_.micro_step = 0;
  for (const auto& unit : units_) unit->hold = unsharded_;
  gatherer_->DiscardPending();
  gatherer_->ReshardAll();
  gatherer_->FinishUpdates();

  const std::vector<int64_t> entries = order_.FirstEntries();
  OrderHash entered;
  for (const int64_t id : entries) entered.Add(comm::Op::kAllGather, id, 0);
  const double divisor = static_cast<double>(collectives_->size()) *
                         static_cast<double>(options_.accumulation) * loss_scale();
  const StepResult result =
      stepper_->Step(LearningRates(), divisor, hash_, entered.Folded(), attempts_);
  hash_.Reset();
  ++attempts_;
  reducer_->StartWindow();
  if (result.order_agreed && entries != agreed_order_) {
    agreed_order_ = entries;
    reducer_->SetForwardOrder(entries);
  }
  gatherer_->set_compare_ranks(options_.debug);
  gatherer_->set_step(attempts_);
  reducer_->set_step(attempts_);
  grad_norm_ = result.grad_norm;
  was_step_applied_ = result.applied;
  if (loss_scaler_) ThrowIfError(loss_scaler_->Update(!result.applied));
  if (!result.applied) {
    HandleNonFinite(result);
    return false;
  }
  ++counters_.global_step;
  gatherer_->RaiseVersion();
  if (options_.zero_stage == 1 || options_.zero_stage == 2) gatherer_->StartUpdates();
  return true;
}

void Engine::Close() {
  if (std::exchange(closed_, true)) return;
  gradient_hooks_.clear();
  gatherer_->DiscardPending();
  gatherer_->FinishUpdates();
  for (const auto& unit : units_) unit->hold = false;
  gatherer_->ReshardAll();
  collectives_->Close();
}

}  // namespace shoal::engine
