// Engine: trains one model sharded over the ranks of its collectives (ZeRO stages 0-3, Rajbhandari
// et al. 2020, arXiv:1910.02054). A value: it owns its units, arena, optimizer state and
// collectives; nothing is process-wide.
//
// [Note: life of a step] Forward: the modules' hooks call EnterUnit / LeaveUnit around every entry
// of a unit. Backward: autograd calls OnUnitOutputGradient before a unit's backward,
// OnParamGradient per parameter, OnUnitInputGradients when a call's inputs have their gradients;
// the end of the outermost graph task finishes the reduces. Step: one agreement over ranks, one
// pass over the pieces.
//
// Threads: one caller at a time (hooks run on autograd's thread while the caller waits for it).
// None needs the GIL. Errors: StatusError; autograd passes it through. After a failed collective
// the engine refuses further work. Units: bytes where a name says so; gradients are averaged over
// ranks and micro-batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shoal/base/executor.h"
#include "shoal/optim/loss_scale.h"
#include "shoal/torch/comm/collectives.h"
#include "shoal/torch/engine/arena.h"
#include "shoal/torch/engine/gather.h"
#include "shoal/torch/engine/hooks.h"
#include "shoal/torch/engine/options.h"
#include "shoal/torch/engine/order.h"
#include "shoal/torch/engine/order_hash.h"
#include "shoal/torch/engine/reduce.h"
#include "shoal/torch/engine/step.h"
#include "shoal/torch/engine/unit.h"

namespace shoal::engine {

// Bytes that the engine holds on this rank, by kind, as allocated.
struct MemoryUse {
  int64_t params = 0;  // full parameters (stages 0-2) or this rank's pieces (stage 3)
  int64_t master = 0;  // 0 where the parameters are the masters
  int64_t optimizer = 0;
  int64_t gradients = 0;      // pieces and, when reduced at the boundary, the units' own buffers
  int64_t arena = 0;          // slots, all kinds
  int64_t overflow_peak = 0;  // highest use beyond the arena
  int64_t overflow_count = 0;
  int64_t padding = 0;  // of one copy of the model's buffers
};

// One tensor of the training state as this rank holds it.
struct StatePiece {
  std::string param;
  std::string role;  // "param", "master", "exp_avg", ...
  at::Tensor data;   // 1-D view of this rank's elements
  std::vector<int64_t> global_shape;
  int64_t flat_begin = 0;   // in elements of the parameter, in buffer order
  bool replicated = false;  // every rank holds the same elements
};

// Scalars that resume a run.
struct Counters {
  int64_t global_step = 0;  // applied updates
  int64_t skipped_steps = 0;
  int64_t micro_step = 0;  // micro-batches of the step under way
};

class Engine : public BackwardListener, public std::enable_shared_from_this<Engine> {
 public:
  // Collective over `collectives`. On failure the model is as it was.
  static std::shared_ptr<Engine> Create(const Options& options, const std::vector<UnitDef>& units,
                                        const std::vector<at::Tensor>& buffers,
                                        std::unique_ptr<Executor> executor,
                                        std::unique_ptr<comm::Collectives> collectives);
  ~Engine() override;

  // Forward of the whole model; EndForward also after an exception, then with no outputs.
  void BeginForward();
  void EndForward(const std::vector<at::Tensor>& outputs);

  // One entry of a unit. `inputs`: the tensors that require grad; replaced by wrapped ones where
  // the engine needs to know when their gradients are there.
  void EnterUnit(int64_t unit, std::vector<at::Tensor>& inputs);
  void LeaveUnit(int64_t unit, const std::vector<at::Tensor>& outputs);

  // Bracket a backward; a bare loss.backward() needs neither. Abort after an exception in between.
  void BeginBackward();
  void EndBackward();
  void AbortBackward();
  // What to multiply a loss (its gradient) by: the loss scale, or 1.
  double loss_scale() const;

  // Counts a micro-batch; at the boundary updates. True if an update was applied.
  bool Step();
  bool is_boundary() const { return counters_.micro_step + 1 == options_.accumulation; }

  // Drops gradients and state of a failed forward or backward; the micro-batches of this step start
  // anew.
  void Reset();

  // Full parameters of all units stay readable, and writable, between these two. Collective.
  void Unshard();
  void ReshardAndAbsorb();

  // Full tensors by parameter name, on the CPU. role: "param", "master", an optimizer state's name,
  // or "grad" (of the last backward, averaged). Collective. `keep`: whether this rank wants the
  // result.
  std::vector<std::pair<std::string, at::Tensor>> FullState(const std::string& role, bool keep);
  // One parameter's full gradient of the last backward, averaged; undefined if it has none.
  // Collective.
  at::Tensor FullGradient(const std::string& param);

  // This rank's pieces of everything that a checkpoint holds. Valid until the next step.
  std::vector<StatePiece> StatePieces();
  // After pieces were overwritten by a load: parameters follow.
  void StateLoaded();
  Counters counters() const { return counters_; }
  void SetCounters(const Counters& counters);
  std::vector<int64_t> ParamUpdates() const;  // per trainable parameter
  void SetParamUpdates(const std::vector<int64_t>& updates);
  optim::LossScaler* loss_scaler() { return loss_scaler_.get(); }

  // Learning rate of the next update, per group.
  std::vector<double> LearningRates() const;
  double grad_norm() const { return grad_norm_; }
  bool was_step_applied() const { return was_step_applied_; }

  MemoryUse memory() const;
  const std::vector<std::string>& state_names() const { return stepper_->state_names(); }
  std::string arena_plan() const { return arena_plan_; }
  const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  const Options& options() const { return options_; }
  comm::Collectives& collectives() { return *collectives_; }

  // Gives groups and hooks back. Parameters keep their values at stages 0-2, stay sharded at
  // stage 3. Idempotent.
  void Close();
  bool closed() const { return closed_; }

  void OnModelOutputGradient() override;
  void OnUnitOutputGradient(int64_t unit) override;
  void OnUnitInputGradients(int64_t unit) override;
  void OnParamGradient(int64_t unit, int64_t param) override;

 private:
  struct Call {  // one entry of a unit, for PropagateInPlace
    std::vector<at::Tensor> originals;
    std::vector<at::Tensor> wrapped;
    std::vector<int64_t> versions;
  };
  // What backward is under way.
  enum class Backward {
    kNone,       // No graph task has reached the engine.
    kBracketed,  // Between BeginBackward and EndBackward.
    kBare,       // A graph task that the user started; a callback of its end is queued.
  };
  class EndOfTask;

  explicit Engine(const Options& options) : options_(options) {}

  Unit& UnitAt(int64_t unit) { return *units_[static_cast<size_t>(unit)]; }
  void Initialise(const std::vector<UnitDef>& units, const std::vector<at::Tensor>& buffers);
  void MakeArena();
  void RequireOpen(const char* operation) const;
  void RecoverFromDeadTask();
  void JoinBackward();
  void FinishBackward();
  void HandleNonFinite(const StepResult& result);
  std::vector<std::pair<std::string, at::Tensor>> FullParams(bool keep);
  at::Tensor PieceOf(const Unit& unit, size_t segment, const std::string& role) const;
  void AbsorbWrites(Unit& unit);

  Options options_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<comm::Collectives> collectives_;
  std::vector<std::unique_ptr<Unit>> units_;
  int64_t num_trainable_ = 0;
  std::unique_ptr<Arena> arena_;
  std::string arena_plan_;
  OrderHash hash_;
  ForwardOrder order_;
  std::vector<int64_t> agreed_order_;
  std::unique_ptr<Gatherer> gatherer_;
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<Stepper> stepper_;
  std::unique_ptr<optim::LossScaler> loss_scaler_;
  std::vector<std::unique_ptr<GradientHook>> gradient_hooks_;
  std::vector<std::vector<Call>> calls_;  // per unit, a stack

  Backward backward_ = Backward::kNone;
  bool task_died_ = false;     // a bare graph task was destroyed before its end
  bool graph_kept_ = false;    // this backward ran with grad mode on (create_graph)
  int64_t forward_depth_ = 0;  // of the whole model
  int64_t backwards_ = 0;      // since the last micro-step
  bool unsharded_ = false;     // between Unshard and ReshardAndAbsorb
  Counters counters_;
  int64_t attempts_ = 0;  // optimizer steps, applied or skipped
  double grad_norm_ = 0.0;
  bool was_step_applied_ = false;
  bool warned_non_finite_ = false;
  bool closed_ = false;
};

}  // namespace shoal::engine
