#include "shoal/torch/engine/hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/torch/status_error.h"

namespace shoal::engine {
namespace {

using torch::autograd::variable_list;

std::shared_ptr<BackwardListener> Lock(const std::weak_ptr<BackwardListener>& listener) {
  std::shared_ptr<BackwardListener> locked = listener.lock();
  if (locked == nullptr) {
    Throw(Status::Cancelled("backward", "this graph was recorded under an engine that is closed"));
  }
  return locked;
}

class OutputHook : public torch::autograd::FunctionPreHook {
 public:
  OutputHook(std::weak_ptr<BackwardListener> listener, int64_t unit)
      : listener_(std::move(listener)), unit_(unit) {}

  variable_list operator()(const variable_list& grads) override {
    const auto listener = Lock(listener_);
    if (unit_ == kModel) {
      listener->OnModelOutputGradient();
    } else {
      listener->OnUnitOutputGradient(unit_);
    }
    return grads;
  }

 private:
  std::weak_ptr<BackwardListener> listener_;
  int64_t unit_;
};

class AccumulateHook : public torch::autograd::FunctionPostHook {
 public:
  AccumulateHook(std::weak_ptr<BackwardListener> listener, int64_t unit, int64_t param)
      : listener_(std::move(listener)), unit_(unit), param_(param) {}

  variable_list operator()(const variable_list& grad_inputs,
                           const variable_list& /*grad_outputs*/) override {
    Lock(listener_)->OnParamGradient(unit_, param_);
    return grad_inputs;
  }

 private:
  std::weak_ptr<BackwardListener> listener_;
  int64_t unit_;
  int64_t param_;
};

class UnitInputs : public torch::autograd::Node {
 public:
  UnitInputs(std::weak_ptr<BackwardListener> listener, int64_t unit)
      : listener_(std::move(listener)), unit_(unit) {}

  variable_list apply(variable_list&& grads) override {
    Lock(listener_)->OnUnitInputGradients(unit_);
    return std::move(grads);
  }
  std::string name() const override { return "ShoalUnitInputs"; }

 private:
  std::weak_ptr<BackwardListener> listener_;
  int64_t unit_;
};

// A template, so that only the branch of this torch's pointer type is compiled.
template <typename Pointer>
Pointer MakeUnitInputs(const std::weak_ptr<BackwardListener>& listener, int64_t unit) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<UnitInputs>(listener, unit);
  } else {
    return c10::make_intrusive<UnitInputs>(listener, unit);
  }
}

void AddPreHook(const at::Tensor& tensor, const std::weak_ptr<BackwardListener>& listener,
                int64_t unit) {
  const NodePtr& node = tensor.grad_fn();
  if (node) node->add_pre_hook(std::make_unique<OutputHook>(listener, unit));
}

}  // namespace

void HookOutput(const at::Tensor& output, const std::weak_ptr<BackwardListener>& listener,
                int64_t unit) {
  if (!output.requires_grad()) return;
  AddPreHook(output, listener, unit);
  if (output.is_view()) {
    const at::Tensor base(output._base());
    if (base.requires_grad()) AddPreHook(base, listener, unit);
  }
}

std::vector<at::Tensor> WrapInputs(const std::vector<at::Tensor>& inputs,
                                   const std::weak_ptr<BackwardListener>& listener, int64_t unit) {
  NodePtr node = MakeUnitInputs<NodePtr>(listener, unit);
  torch::autograd::edge_list edges;
  edges.reserve(inputs.size());
  for (const at::Tensor& input : inputs) {
    edges.push_back(torch::autograd::impl::gradient_edge(input));
  }
  node->set_next_edges(std::move(edges));
  std::vector<at::Tensor> wrapped;
  wrapped.reserve(inputs.size());
  for (const at::Tensor& input : inputs) {
    at::Tensor alias = input.detach();
    torch::autograd::create_gradient_edge(alias, node);
    wrapped.push_back(std::move(alias));
  }
  return wrapped;
}

void PropagateInPlace(const std::vector<at::Tensor>& originals,
                      const std::vector<at::Tensor>& wrapped, const std::vector<int64_t>& versions,
                      const std::string& unit_name) {
  for (size_t i = 0; i < originals.size(); ++i) {
    if (static_cast<int64_t>(wrapped[i]._version()) == versions[i]) continue;
    const at::Tensor& original = originals[i];
    if (original.is_leaf() || original.is_view()) {
      Throw(Status::InvalidArgument(
          "forward", "unit '" + unit_name + "' modifies an input in place that is a " +
                         (original.is_leaf() ? "leaf" : "view") +
                         "; autograd cannot follow that through the unit: clone the input first"));
    }
    torch::autograd::impl::set_gradient_edge(original,
                                             torch::autograd::impl::gradient_edge(wrapped[i]));
  }
}

GradientHook::GradientHook(const at::Tensor& param, const std::weak_ptr<BackwardListener>& listener,
                           int64_t unit, int64_t index)
    : node_(torch::autograd::impl::grad_accumulator(param)),
      key_(node_->add_post_hook(std::make_unique<AccumulateHook>(listener, unit, index))) {}

GradientHook::~GradientHook() { node_->del_post_hook(key_); }

int64_t CurrentGraphTask() { return torch::autograd::get_current_graph_task_id(); }

}  // namespace shoal::engine
