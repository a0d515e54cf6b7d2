// LossScaler: the factor on the loss that keeps float16 gradients in range, with DeepSpeed's rules.
//
// Dynamic (loss_scale == 0): starts at 2^initial_scale_power. An overflow costs one unit of
// hysteresis; at the last unit each overflow halves the scale, never below min_loss_scale. Of the
// updates without overflow since the last overflow (or the start), number W + 1, 2 W + 1, ... with
// W = loss_scale_window doubles the scale and refills the hysteresis; with consecutive_hysteresis
// every update without overflow refills it.
// An overflow at the last unit while the scale is already min_loss_scale is an error, as in
// DeepSpeed: no scale would help. Static (loss_scale > 0): never changes, overflows included.
//
// Every rank must see the same sequence of overflows; then all scales agree without communication.
//
// Thread-safety: a value; const access from several threads is safe.
#pragma once

#include <cstdint>

#include "shoal/base/status.h"

namespace shoal::optim {

struct LossScaleOptions {
  double loss_scale = 0.0;           // 0: dynamic; > 0 and finite: static
  int64_t initial_scale_power = 16;  // 0..126
  int64_t loss_scale_window = 1000;  // >= 1
  int64_t hysteresis = 2;            // >= 1
  bool consecutive_hysteresis = false;
  double min_loss_scale = 1.0;  // > 0 and finite
};

// InvalidArgument naming the first value that breaks a rule above.
Status Validate(const LossScaleOptions& options);

// What a checkpoint keeps; the options come from the configuration.
struct LossScaleState {
  double scale = 1.0;          // > 0 and finite
  int64_t num_updates = 0;     // >= 0: calls of Update (DeepSpeed's cur_iter)
  int64_t last_overflow = -1;  // < num_updates: number of the last overflow, -1: none yet
  int64_t hysteresis = 1;      // >= 1: units left (DeepSpeed's cur_hysteresis)
  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

class LossScaler {
 public:
  // @pre Validate(options).ok().
  explicit LossScaler(const LossScaleOptions& options);

  // What the next loss is multiplied by.
  double scale() const { return state_.scale; }
  bool is_dynamic() const { return options_.loss_scale == 0.0; }

  // Reports one attempted update: whether its gradients were non-finite (and it was skipped).
  // Internal if the scale would have to fall below min_loss_scale; the state is unchanged then.
  Status Update(bool overflow);

  const LossScaleState& state() const { return state_; }
  // InvalidArgument naming the first value that breaks a rule of LossScaleState. A static scaler
  // keeps its configured scale.
  Status SetState(const LossScaleState& state);

 private:
  LossScaleOptions options_;
  LossScaleState state_;
};

}  // namespace shoal::optim
