#include "shoal/optim/loss_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "shoal/base/check.h"
#include "shoal/base/status.h"

namespace shoal::optim {
namespace {

constexpr std::string_view kOperation = "loss scale";
constexpr double kFactor = 2.0;
constexpr int64_t kMaxInitialPower = 126;

Status Check(bool holds, std::string_view name, double value, std::string_view rule) {
  if (holds) return {};
  return Status::InvalidArgument(kOperation,
                                 fmt::format("{} is {}, must be {}", name, value, rule));
}

Status Check(bool holds, std::string_view name, int64_t value, std::string_view rule) {
  if (holds) return {};
  return Status::InvalidArgument(kOperation,
                                 fmt::format("{} is {}, must be {}", name, value, rule));
}

bool IsPositive(double value) { return value > 0.0 && std::isfinite(value); }

}  // namespace

Status Validate(const LossScaleOptions& options) {
  SHOAL_RETURN_IF_ERROR(Check(options.loss_scale == 0.0 || IsPositive(options.loss_scale),
                              "loss_scale", options.loss_scale, "finite and >= 0"));
  SHOAL_RETURN_IF_ERROR(
      Check(options.initial_scale_power >= 0 && options.initial_scale_power <= kMaxInitialPower,
            "initial_scale_power", options.initial_scale_power, "in 0..126"));
  SHOAL_RETURN_IF_ERROR(Check(options.loss_scale_window >= 1, "loss_scale_window",
                              options.loss_scale_window, ">= 1"));
  SHOAL_RETURN_IF_ERROR(Check(options.hysteresis >= 1, "hysteresis", options.hysteresis, ">= 1"));
  return Check(IsPositive(options.min_loss_scale), "min_loss_scale", options.min_loss_scale,
               "finite and > 0");
}

LossScaler::LossScaler(const LossScaleOptions& options) : options_(options) {
  const Status status = Validate(options);
  SHOAL_CHECK(status.ok(), status.ToString());
  state_.scale = is_dynamic() ? std::ldexp(1.0, static_cast<int>(options.initial_scale_power))
                              : options.loss_scale;
  state_.hysteresis = options.hysteresis;
}

Status LossScaler::Update(bool overflow) {
  if (!is_dynamic()) return {};
  if (overflow) {
    if (state_.hysteresis > 1) {
      --state_.hysteresis;
    } else if (state_.scale == options_.min_loss_scale) {
      return Status::Internal(kOperation,
                              fmt::format("gradients overflow at the smallest scale allowed "
                                          "(min_loss_scale is {}); the model or its data give "
                                          "non-finite gradients",
                                          options_.min_loss_scale));
    } else {
      state_.scale = std::max(state_.scale / kFactor, options_.min_loss_scale);
    }
    state_.last_overflow = state_.num_updates;
  } else {
    const int64_t good_before = state_.num_updates - state_.last_overflow - 1;
    const bool grows = good_before > 0 && good_before % options_.loss_scale_window == 0;
    if (grows) state_.scale *= kFactor;
    if (grows || options_.consecutive_hysteresis) state_.hysteresis = options_.hysteresis;
  }
  ++state_.num_updates;
  return {};
}

Status LossScaler::SetState(const LossScaleState& state) {
  SHOAL_RETURN_IF_ERROR(Check(IsPositive(state.scale), "scale", state.scale, "finite and > 0"));
  SHOAL_RETURN_IF_ERROR(Check(state.num_updates >= 0, "num_updates", state.num_updates, ">= 0"));
  SHOAL_RETURN_IF_ERROR(Check(state.last_overflow >= -1 && state.last_overflow < state.num_updates,
                              "last_overflow", state.last_overflow,
                              fmt::format("in -1..num_updates-1 ({})", state.num_updates - 1)));
  SHOAL_RETURN_IF_ERROR(Check(state.hysteresis >= 1, "hysteresis", state.hysteresis, ">= 1"));
  const double scale = is_dynamic() ? state.scale : options_.loss_scale;
  state_ = state;
  state_.scale = scale;
  return {};
}

}  // namespace shoal::optim
