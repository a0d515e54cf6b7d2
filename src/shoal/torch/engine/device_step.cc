#include "shoal/torch/engine/device_step.h"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/optim/optimizers.h"
#include "shoal/torch/status_error.h"

namespace shoal::engine {
namespace {

// Adam's bias correction cannot be turned off in torch's fused kernels, only written out.
void RequireBiasCorrection(const optim::Hyper& hyper) {
  if (!hyper.bias_correction) {
    Throw(Status::Unsupported("step", "bias_correction=false needs the CPU optimizer"));
  }
}

}  // namespace

void UpdateWithTorch(const DeviceUpdate& batch, const optim::Hyper& hyper, int64_t update,
                     double grad_scale) {
  if (batch.masters.empty()) return;
  const at::TensorOptions scalar = batch.masters.front().options().dtype(at::kFloat);
  // The fused kernels divide the gradients by a float32 scalar, which is too coarse for float64.
  const bool wide = batch.masters.front().scalar_type() == at::kDouble;
  const at::Tensor inverse_scale = at::full({}, wide ? 1.0 : 1.0 / grad_scale, scalar);
  std::vector<at::Tensor> grads;
  for (size_t i = 0; i < batch.grads.size(); ++i) {
    const at::Tensor grad = batch.grads[i].to(batch.masters[i].scalar_type());
    grads.push_back(wide ? grad.mul(grad_scale) : grad);
  }
  if (hyper.kind == optim::Kind::kSgd) {
    const bool has_momentum = !batch.states.empty();
    at::_fused_sgd_(batch.masters, grads,
                    has_momentum ? batch.states[0] : std::vector<at::Tensor>(), hyper.weight_decay,
                    hyper.momentum, hyper.lr, hyper.dampening, hyper.nesterov, /*maximize=*/false,
                    /*is_first_step=*/update == 1, inverse_scale, std::nullopt);
  } else {
    RequireBiasCorrection(hyper);
    const std::vector<at::Tensor> steps(batch.masters.size(),
                                        at::full({}, static_cast<double>(update), scalar));
    if (hyper.kind == optim::Kind::kAdamW) {
      at::_fused_adamw_(batch.masters, grads, batch.states[0], batch.states[1], {}, steps, hyper.lr,
                        hyper.beta1, hyper.beta2, hyper.weight_decay, hyper.eps, /*amsgrad=*/false,
                        /*maximize=*/false, inverse_scale, std::nullopt);
    } else {
      at::_fused_adam_(batch.masters, grads, batch.states[0], batch.states[1], {}, steps, hyper.lr,
                       hyper.beta1, hyper.beta2, hyper.weight_decay, hyper.eps, /*amsgrad=*/false,
                       /*maximize=*/false, inverse_scale, std::nullopt);
    }
  }
  for (size_t i = 0; i < batch.computes.size(); ++i) {
    if (batch.computes[i].defined()) batch.computes[i].copy_(batch.masters[i]);
  }
}

at::Tensor DeviceSumOfSquares(const at::Tensor& tensor) {
  const at::ScalarType wide = tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::linalg_vector_norm(tensor, 2, std::nullopt, false, wide).to(at::kDouble).square();
}

double SumOnHost(const std::vector<at::Tensor>& scalars) {
  return at::stack(scalars).sum().item<double>();
}

void AllReduceOnHost(comm::Collectives& collectives, at::Device device, std::vector<double>& values,
                     comm::OpTag tag) {
  const at::Tensor host =
      at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kDouble);
  const at::Tensor sum = device.is_cpu() ? host : host.to(device);
  collectives.AllReduce(sum, tag)->Wait();
  if (!device.is_cpu()) host.copy_(sum);
}

}  // namespace shoal::engine
