// Options: what an engine was asked to do, resolved from the configuration and the mesh. A value.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "shoal/config/config.h"
#include "shoal/optim/loss_scale.h"
#include "shoal/optim/optimizers.h"
#include "shoal/optim/schedule.h"

namespace shoal::engine {

struct Options {
  int zero_stage = 3;
  at::Device device = at::kCPU;
  at::ScalarType compute_dtype = at::kBFloat16;
  at::ScalarType master_dtype = at::kFloat;
  at::ScalarType reduce_dtype = at::kBFloat16;   // of gradients on the wire
  at::ScalarType accumulate_dtype = at::kFloat;  // of gradients over micro-batches
  int64_t accumulation = 1;                      // micro-batches per step
  bool reduce_unreduced = false;                 // stage 3: accumulate="unreduced"
  config::NonFinite non_finite = config::NonFinite::kSkip;
  double clip = 0.0;                 // global norm; 0 = off
  bool debug = false;                // compare ranks before each gather's result is used
  int64_t prefetch_depth = 1;        // units gathered ahead
  std::vector<optim::Hyper> groups;  // per parameter group; empty: no optimizer
  optim::Schedule schedule;
  std::optional<optim::LossScaleOptions> loss_scale;  // fp16 only
};

}  // namespace shoal::engine
