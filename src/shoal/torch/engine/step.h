// Stepper: one optimizer step over this rank's pieces.
//
// [Note: the step's vector] One all-reduce carries what all ranks must agree on: the sum of squares
// of the gradients, the order hash h and h^2 (ranks that issued different collectives have N *
// sum(h^2) != (sum h)^2), the same for the hash of the forward's order, and one entry per trainable
// parameter that counts the ranks on which it got a gradient. All ranks see the same sums, so they
// decide alike: skip or apply, which parameters, which order.
//
// On the CPU one pass does unscale, clip, update and the compute-dtype copy (optim/). Elsewhere
// torch's fused optimizers run on the pieces, and the vector costs one host read per step.
//
// Ownership: borrows from the engine. Thread-safety: none; the engine's one-caller rule.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/base/executor.h"
#include "shoal/optim/loss_scale.h"
#include "shoal/torch/comm/collectives.h"
#include "shoal/torch/engine/options.h"
#include "shoal/torch/engine/order_hash.h"
#include "shoal/torch/engine/unit.h"

namespace shoal::engine {

struct StepResult {
  bool applied = false;
  double grad_norm = 0.0;     // before clipping, of the averaged gradients; may be inf or nan
  bool order_agreed = false;  // all ranks ran the same forward order
  std::string
      first_non_finite;  // a parameter with non-finite gradients on this rank; empty if none
};

class Stepper {
 public:
  Stepper(std::vector<std::unique_ptr<Unit>>* units, comm::Collectives* collectives,
          Executor* executor, const Options* options, int64_t num_trainable);

  // Allocates masters' optimizer state for every trainable piece.
  void AllocateStates();

  // @pre gradients are reduced. `lr` per parameter group. `mean_divisor`: ranks x micro-batches (x
  // loss scale). Throws Internal when ranks issued different collectives since the last step:
  // nothing is updated then.
  StepResult Step(const std::vector<double>& lr, double mean_divisor, const OrderHash& issued,
                  double forward_order_hash, int64_t step);

  const std::vector<std::string>& state_names() const { return state_names_; }

 private:
  struct Run {  // consecutive elements of a piece that are updated alike
    Unit* unit;
    size_t segment;
    int64_t offset;
    int64_t numel;
    int64_t group;
    int64_t update;  // 1-based number of this update
  };

  std::vector<double> Agree(double sum_of_squares, const OrderHash& issued,
                            double forward_order_hash, int64_t step);
  double LocalSumOfSquares() const;
  std::vector<Run> CollectRuns(const std::vector<double>& agreed);
  void Update(const std::vector<Run>& runs, const std::vector<double>& lr, double grad_scale);
  void UpdateOnCpu(const std::vector<Run>& runs, const optim::Hyper& hyper, int64_t update,
                   double grad_scale);
  void UpdateOnDevice(const std::vector<Run>& runs, const optim::Hyper& hyper, int64_t update,
                      double grad_scale);
  std::string FindNonFinite() const;

  std::vector<std::unique_ptr<Unit>>* units_;
  comm::Collectives* collectives_;
  Executor* executor_;
  const Options* options_;
  int64_t num_trainable_;
  std::vector<std::string> state_names_;
};

}  // namespace shoal::engine
