// The optimizer step on devices other than the CPU, through torch's fused optimizers and
// device-generic operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "shoal/optim/optimizers.h"
#include "shoal/torch/comm/collectives.h"

namespace shoal::engine {

// Runs of pieces that are updated alike; all vectors have one entry per run.
struct DeviceUpdate {
  std::vector<at::Tensor> masters;  // master dtype
  std::vector<at::Tensor> grads;    // reduce or accumulate dtype
  std::vector<at::Tensor>
      computes;  // compute dtype, to be written; undefined where the master is it
  std::vector<std::vector<at::Tensor>> states;  // [state][run], master dtype
};

// g = grad * grad_scale; update number `update` (1-based); then the compute copies.
void UpdateWithTorch(const DeviceUpdate& batch, const optim::Hyper& hyper, int64_t update,
                     double grad_scale);

// Sum of squares as a float64 scalar on the tensor's device.
at::Tensor DeviceSumOfSquares(const at::Tensor& tensor);
// Adds float64 scalars of one device and reads the result: one host read.
double SumOnHost(const std::vector<at::Tensor>& scalars);

// Sums `values` over ranks through `device`'s backend; float64.
void AllReduceOnHost(comm::Collectives& collectives, at::Device device, std::vector<double>& values,
                     comm::OpTag tag);

}  // namespace shoal::engine
