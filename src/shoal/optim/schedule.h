// Learning-rate schedules as pure functions of the number of completed optimizer steps.
//
// WarmupLR, WarmupDecayLR and WarmupCosineLR give the rates that DeepSpeed 0.19's schedulers of the
// same names give to the same update. There is no state: a checkpoint's step count is enough to
// continue. Steps that were skipped (non-finite gradients) are not completed steps: the rate of the
// next attempt is the same.
//
// Let i = completed_steps - 1 (DeepSpeed's last_batch_iteration), W = max(2, warmup_num_steps),
// T = total_num_steps, and for 0 <= i < W the rise
//   u(i) = ln(i + 1) / ln(W)   (log)      or   i / W   (linear).
//   WarmupLR        i < 0: min_lr;  i < W: min_lr + (max_lr - min_lr) * u(i);  else max_lr
//   WarmupDecayLR   the same with (max_lr - min_lr) * max(0, (T - i) / max(1, T - W)) after the
//                   rise, so it ends at min_lr
//   WarmupCosineLR  lr times: i < 0: 0;  i < W: r + (1 - r) * u(i), r = warmup_min_ratio;
//                   else c + (1 - c) * (1 + cos(pi * min(1, (i - W + 1) / max(1, T - W)))) / 2,
//                   c = cos_min_ratio, at least 0
// So the first two updates have the same, lowest rate (0 by default), as in DeepSpeed.
//
// Thread-safety: pure functions and values.
#pragma once

#include <cstdint>
#include <optional>

#include "shoal/base/status.h"

namespace shoal::optim {

enum class ScheduleKind {
  kConstant,        // The group's rate, always.
  kWarmupLR,        // Rises from warmup_min_lr to warmup_max_lr, then stays.
  kWarmupDecayLR,   // The same, then falls linearly until total_num_steps.
  kWarmupCosineLR,  // Multiplies the group's rate: rises to 1, then a cosine to cos_min_ratio.
};

enum class WarmupType {
  kLog,     // Logarithmic in the step.
  kLinear,  // Linear in the step.
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  WarmupType warmup_type = WarmupType::kLog;
  int64_t warmup_num_steps = 1000;  // >= 1
  int64_t total_num_steps = 0;      // >= 1 for kWarmupDecayLR and kWarmupCosineLR
  double warmup_min_lr = 0.0;       // kWarmupLR, kWarmupDecayLR: >= 0
  std::optional<double> warmup_max_lr = std::nullopt;  // the same; unset: the group's rate
  double warmup_min_ratio = 0.0;                       // kWarmupCosineLR: >= 0
  double cos_min_ratio = 1e-4;                         // kWarmupCosineLR: >= 0
};

// InvalidArgument naming the first value that breaks a rule above.
Status Validate(const Schedule& schedule);

// The rate of the update that follows `completed_steps` (>= 0) completed ones, for a parameter
// group whose configured rate is `base_lr`. @pre Validate(schedule).ok().
double LearningRate(const Schedule& schedule, double base_lr, int64_t completed_steps);

}  // namespace shoal::optim
