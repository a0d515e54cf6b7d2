#include "shoal/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "shoal/base/check.h"
#include "shoal/base/status.h"

namespace shoal::optim {
namespace {

constexpr std::string_view kOperation = "schedule";

int64_t WarmupSteps(const Schedule& schedule) {
  return std::max<int64_t>(2, schedule.warmup_num_steps);
}

// u(i) of the header. @pre 0 <= i < W
double Rise(const Schedule& schedule, int64_t i) {
  const auto steps = static_cast<double>(WarmupSteps(schedule));
  if (schedule.warmup_type == WarmupType::kLinear) return static_cast<double>(i) / steps;
  return (1.0 / std::log(steps)) * std::log(static_cast<double>(i + 1));
}

// max(1, T - W)
double DecaySteps(const Schedule& schedule) {
  return static_cast<double>(
      std::max<int64_t>(1, schedule.total_num_steps - WarmupSteps(schedule)));
}

double Warmup(const Schedule& schedule, double base_lr, int64_t i) {
  const double low = schedule.warmup_min_lr;
  if (i < 0) return low;
  const double height = schedule.warmup_max_lr.value_or(base_lr) - low;
  if (i < WarmupSteps(schedule)) return low + height * Rise(schedule, i);
  if (schedule.kind == ScheduleKind::kWarmupLR) return low + height;
  const auto left = static_cast<double>(schedule.total_num_steps - i);
  return low + height * std::max(0.0, left / DecaySteps(schedule));
}

double CosineRatio(const Schedule& schedule, int64_t i) {
  if (i < 0) return 0.0;
  if (i < WarmupSteps(schedule)) {
    const double low = schedule.warmup_min_ratio;
    return low + Rise(schedule, i) * (1.0 - low);
  }
  const auto done = static_cast<double>(i - WarmupSteps(schedule) + 1);
  const double progress = std::min(1.0, done / DecaySteps(schedule));
  const double wave = (1.0 + std::cos(std::numbers::pi * progress)) / 2.0;
  return std::max(0.0, schedule.cos_min_ratio + (1.0 - schedule.cos_min_ratio) * wave);
}

Status CheckSteps(std::string_view name, int64_t value) {
  if (value >= 1) return {};
  return Status::InvalidArgument(kOperation, fmt::format("{} is {}, must be >= 1", name, value));
}

Status CheckRate(std::string_view name, double value) {
  if (value >= 0.0 && std::isfinite(value)) return {};
  return Status::InvalidArgument(kOperation,
                                 fmt::format("{} is {}, must be finite and >= 0", name, value));
}

}  // namespace

Status Validate(const Schedule& schedule) {
  if (schedule.kind == ScheduleKind::kConstant) return {};
  SHOAL_RETURN_IF_ERROR(CheckSteps("warmup_num_steps", schedule.warmup_num_steps));
  if (schedule.kind != ScheduleKind::kWarmupLR) {
    SHOAL_RETURN_IF_ERROR(CheckSteps("total_num_steps", schedule.total_num_steps));
  }
  if (schedule.kind == ScheduleKind::kWarmupCosineLR) {
    SHOAL_RETURN_IF_ERROR(CheckRate("warmup_min_ratio", schedule.warmup_min_ratio));
    return CheckRate("cos_min_ratio", schedule.cos_min_ratio);
  }
  SHOAL_RETURN_IF_ERROR(CheckRate("warmup_min_lr", schedule.warmup_min_lr));
  return CheckRate("warmup_max_lr", schedule.warmup_max_lr.value_or(0.0));
}

double LearningRate(const Schedule& schedule, double base_lr, int64_t completed_steps) {
  SHOAL_CHECK(completed_steps >= 0);
  const int64_t i = completed_steps - 1;
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
      return base_lr;
    case ScheduleKind::kWarmupLR:
    case ScheduleKind::kWarmupDecayLR:
      return Warmup(schedule, base_lr, i);
    case ScheduleKind::kWarmupCosineLR:
      return base_lr * CosineRatio(schedule, i);
  }
  SHOAL_CHECK(false, "unknown schedule kind");
}

}  // namespace shoal::optim
