// The autograd nodes and hooks through which a backward reaches the engine. They hold the engine
// weakly: a graph that outlives its engine raises instead of touching freed memory.
//
// Threads: autograd calls them on the thread of the backward (the caller's on the CPU, the device's
// worker elsewhere), without the GIL.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace shoal::engine {

// What hooks call. Implemented by Engine.
class BackwardListener {
 public:
  virtual ~BackwardListener() = default;
  // The gradient of an output of the whole model is there.
  virtual void OnModelOutputGradient() = 0;
  // The gradient of an output of unit `unit` is there: its backward is about to run.
  virtual void OnUnitOutputGradient(int64_t unit) = 0;
  // Every input of one call of unit `unit` that requires grad has its gradient.
  virtual void OnUnitInputGradients(int64_t unit) = 0;
  // AccumulateGrad of params[param] of unit `unit` has run.
  virtual void OnParamGradient(int64_t unit, int64_t param) = 0;
};

// Intrusive in torch 2.13, shared_ptr in 2.11.
using NodePtr =
    decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

inline constexpr int64_t kModel = -1;

// Makes the backward of `output` call OnUnitOutputGradient(unit), or OnModelOutputGradient for
// kModel, before it runs: a hook on its grad_fn and, where it is a view, on its base's (an in-place
// operation on a view replaces its own).
void HookOutput(const at::Tensor& output, const std::weak_ptr<BackwardListener>& listener,
                int64_t unit);

// One identity node for all of `inputs` (each requires grad): OnUnitInputGradients(unit) fires when
// all their gradients are there. Returns tensors that share storage and version with the inputs.
std::vector<at::Tensor> WrapInputs(const std::vector<at::Tensor>& inputs,
                                   const std::weak_ptr<BackwardListener>& listener, int64_t unit);

// What in-place operations on wrapped inputs did is given to the originals, as plain torch would.
// Throws InvalidArgument naming `unit_name` where that is impossible (the input is a view or a
// leaf).
void PropagateInPlace(const std::vector<at::Tensor>& originals,
                      const std::vector<at::Tensor>& wrapped, const std::vector<int64_t>& versions,
                      const std::string& unit_name);

// A post hook on the parameter's AccumulateGrad node. The tensor's own post-accumulate slot stays
// the user's.
class GradientHook {
 public:
  GradientHook(const at::Tensor& param, const std::weak_ptr<BackwardListener>& listener,
               int64_t unit, int64_t index);
  ~GradientHook();
  GradientHook(const GradientHook&) = delete;
  GradientHook& operator=(const GradientHook&) = delete;

 private:
  NodePtr node_;  // kept alive: autograd holds accumulators weakly
  uintptr_t key_;
};

// The graph task that this thread is running, or -1.
int64_t CurrentGraphTask();

}  // namespace shoal::engine
