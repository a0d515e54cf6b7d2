#include "shoal/torch/engine/options_from_config.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/config/config.h"
#include "shoal/optim/loss_scale.h"
#include "shoal/optim/optimizers.h"
#include "shoal/optim/schedule.h"
#include "shoal/torch/dtype.h"
#include "shoal/torch/status_error.h"

namespace shoal::engine {
namespace {

optim::Hyper HyperOf(const config::OptimizerConfig& from) {
  optim::Hyper hyper = {};
  switch (from.kind) {
    case config::OptimizerKind::kNone:
      break;
    case config::OptimizerKind::kAdam:
    case config::OptimizerKind::kAdamW:
      hyper.kind = from.decoupled_weight_decay ? optim::Kind::kAdamW : optim::Kind::kAdam;
      break;
    case config::OptimizerKind::kSgd:
      hyper.kind = optim::Kind::kSgd;
      break;
  }
  hyper.lr = from.lr;
  hyper.beta1 = from.beta1;
  hyper.beta2 = from.beta2;
  hyper.eps = from.eps;
  hyper.weight_decay = from.weight_decay;
  hyper.momentum = from.momentum;
  hyper.dampening = from.dampening;
  hyper.nesterov = from.nesterov;
  hyper.bias_correction = from.bias_correction;
  return hyper;
}

void Override(optim::Hyper& hyper, const std::string& name, double value) {
  const std::map<std::string, double optim::Hyper::*> fields = {
      {"lr", &optim::Hyper::lr},
      {"beta1", &optim::Hyper::beta1},
      {"beta2", &optim::Hyper::beta2},
      {"eps", &optim::Hyper::eps},
      {"weight_decay", &optim::Hyper::weight_decay},
      {"momentum", &optim::Hyper::momentum},
      {"dampening", &optim::Hyper::dampening},
  };
  const auto field = fields.find(name);
  if (field == fields.end()) {
    Throw(
        Status::InvalidArgument("engine", "parameter group has the unknown option '" + name + "'"));
  }
  hyper.*field->second = value;
}

optim::Schedule ScheduleOf(const config::SchedulerConfig& from) {
  optim::Schedule schedule;
  switch (from.kind) {
    case config::SchedulerKind::kNone:
      return schedule;
    case config::SchedulerKind::kWarmupLR:
      schedule.kind = optim::ScheduleKind::kWarmupLR;
      break;
    case config::SchedulerKind::kWarmupDecayLR:
      schedule.kind = optim::ScheduleKind::kWarmupDecayLR;
      break;
    case config::SchedulerKind::kWarmupCosineLR:
      schedule.kind = optim::ScheduleKind::kWarmupCosineLR;
      break;
  }
  schedule.warmup_type = from.warmup_log ? optim::WarmupType::kLog : optim::WarmupType::kLinear;
  schedule.warmup_num_steps = from.warmup_num_steps;
  schedule.total_num_steps = from.total_num_steps;
  schedule.warmup_min_lr = from.warmup_min_lr;
  schedule.warmup_max_lr = from.warmup_max_lr;
  schedule.warmup_min_ratio = from.warmup_min_ratio;
  schedule.cos_min_ratio = from.cos_min_ratio;
  return schedule;
}

optim::LossScaleOptions LossScaleOf(const config::Fp16Config& from) {
  optim::LossScaleOptions options;
  options.loss_scale = from.loss_scale;
  options.initial_scale_power = from.initial_scale_power;
  options.loss_scale_window = from.loss_scale_window;
  options.hysteresis = from.hysteresis;
  options.consecutive_hysteresis = from.consecutive_hysteresis;
  options.min_loss_scale = from.min_loss_scale;
  return options;
}

}  // namespace

Options OptionsFromConfig(const config::Config& config, at::Device device, int64_t accumulation,
                          const std::vector<std::map<std::string, double>>& groups) {
  Options options;
  options.zero_stage = config.zero_stage;
  options.device = device;
  options.compute_dtype = ToTorch(config.compute_dtype);
  options.master_dtype = ToTorch(config.master_dtype);
  options.reduce_dtype = ToTorch(config.reduce_dtype.value_or(config.compute_dtype));
  options.accumulate_dtype = ToTorch(config.accumulate_dtype);
  options.accumulation = accumulation;
  options.reduce_unreduced = config.accumulate == config::Accumulate::kUnreduced;
  options.non_finite = config.non_finite;
  options.clip = config.gradient_clipping;
  options.debug = config.debug;
  options.schedule = ScheduleOf(config.scheduler);
  ThrowIfError(optim::Validate(options.schedule));
  if (config.fp16.enabled) {
    options.loss_scale = LossScaleOf(config.fp16);
    ThrowIfError(optim::Validate(*options.loss_scale));
  }
  if (config.optimizer.kind == config::OptimizerKind::kNone) return options;
  for (const auto& overrides : groups) {
    optim::Hyper& hyper = options.groups.emplace_back(HyperOf(config.optimizer));
    for (const auto& [name, value] : overrides) Override(hyper, name, value);
    ThrowIfError(optim::Validate(hyper));
  }
  return options;
}

}  // namespace shoal::engine
