#include "shoal/torch/engine/step.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/executor.h"
#include "shoal/base/status.h"
#include "shoal/optim/optimizers.h"
#include "shoal/optim/reduce.h"
#include "shoal/torch/dtype.h"
#include "shoal/torch/engine/device_step.h"
#include "shoal/torch/status_error.h"

namespace shoal::engine {
namespace {

// Entries of the step's vector before the per-parameter counts. [Note: the step's vector]
enum Entry : size_t {
  kSumOfSquares,
  kIssued,
  kIssuedSquared,
  kOrder,
  kOrderSquared,
  kFirstParam,
};

// Whether `size` numbers with this sum and sum of squares are all equal (exact: 20-bit integers).
bool AllEqual(double sum, double sum_of_squares, int64_t size) {
  return sum * sum == static_cast<double>(size) * sum_of_squares;
}

int64_t NumLocalTrainable(const Unit& unit, int64_t piece_index) {
  int64_t count = 0;
  for (const Param& param : unit.params) {
    if (param.trainable && RangeOf(unit, param, piece_index).numel > 0) ++count;
  }
  return count;
}

}  // namespace

Stepper::Stepper(std::vector<std::unique_ptr<Unit>>* units, comm::Collectives* collectives,
                 Executor* executor, const Options* options, int64_t num_trainable)
    : units_(units),
      collectives_(collectives),
      executor_(executor),
      options_(options),
      num_trainable_(num_trainable) {
  if (options_->groups.empty()) return;
  for (const auto& name : optim::StateNames(options_->groups.front())) {
    state_names_.emplace_back(name);
  }
}

void Stepper::AllocateStates() {
  for (const auto& unit : *units_) {
    for (Piece& piece : unit->pieces) {
      if (!piece.master.defined()) continue;
      for (size_t i = 0; i < state_names_.size(); ++i) {
        piece.states.push_back(at::zeros_like(piece.master));
      }
    }
  }
}

double Stepper::LocalSumOfSquares() const {
  // At stage 0 every rank holds everything: only one contributes.
  if (options_->zero_stage == 0 && collectives_->rank() != 0) return 0.0;
  double sum = 0.0;
  std::vector<at::Tensor> norms;
  for (const auto& unit : *units_) {
    for (const Piece& piece : unit->pieces) {
      if (!piece.grad.defined() || piece.grad.numel() == 0) continue;
      if (piece.grad.is_cpu()) {
        sum += optim::SumOfSquares(piece.grad.const_data_ptr(), FromTorch(piece.grad.scalar_type()),
                                   piece.grad.numel(), *executor_);
      } else {
        norms.push_back(DeviceSumOfSquares(piece.grad));
      }
    }
  }
  return norms.empty() ? sum : sum + SumOnHost(norms);
}

std::vector<double> Stepper::Agree(double sum_of_squares, const OrderHash& issued,
                                   double forward_order_hash, int64_t step) {
  std::vector<double> values(static_cast<size_t>(kFirstParam) +
                             static_cast<size_t>(num_trainable_));
  const double hash = issued.Folded();
  values[kSumOfSquares] = sum_of_squares;
  values[kIssued] = hash;
  values[kIssuedSquared] = hash * hash;
  values[kOrder] = forward_order_hash;
  values[kOrderSquared] = forward_order_hash * forward_order_hash;
  for (const auto& unit : *units_) {
    for (const Param& param : unit->params) {
      if (param.index >= 0 && param.has_grad) {
        values[static_cast<size_t>(kFirstParam) + static_cast<size_t>(param.index)] = 1.0;
      }
    }
  }
  AllReduceOnHost(*collectives_, options_->device, values, {nullptr, step});
  if (!AllEqual(values[kIssued], values[kIssuedSquared], collectives_->size())) {
    Throw(Status::Internal("step", "ranks issued different collectives in step " +
                                       std::to_string(step) +
                                       "; nothing was updated. Set debug=true to see which"));
  }
  return values;
}

std::vector<Stepper::Run> Stepper::CollectRuns(const std::vector<double>& agreed) {
  std::vector<Run> runs;
  const int64_t piece_index = options_->zero_stage == 0 ? 0 : collectives_->rank();
  for (const auto& unit : *units_) {
    std::vector<std::pair<const Param*, LocalRange>> ranges;
    for (Param& param : unit->params) {
      if (param.index < 0) continue;
      if (agreed[static_cast<size_t>(kFirstParam) + static_cast<size_t>(param.index)] == 0.0)
        continue;
      ++param.updates;
      const LocalRange range = RangeOf(*unit, param, piece_index);
      if (range.numel > 0) ranges.emplace_back(&param, range);
    }
    std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) {
      return std::make_pair(a.first->slice.segment, a.second.offset) <
             std::make_pair(b.first->slice.segment, b.second.offset);
    });
    const bool whole = static_cast<int64_t>(ranges.size()) == NumLocalTrainable(*unit, piece_index);
    for (const auto& [param, range] : ranges) {
      const auto segment = static_cast<size_t>(param->slice.segment);
      // The padding between two neighbours holds zeros, which every optimizer keeps zero: one run
      // spans it.
      const bool joins = whole && !runs.empty() && runs.back().unit == unit.get() &&
                         runs.back().segment == segment && runs.back().group == param->group &&
                         runs.back().update == param->updates;
      if (joins) {
        runs.back().numel = range.offset + range.numel - runs.back().offset;
      } else {
        runs.push_back(
            {unit.get(), segment, range.offset, range.numel, param->group, param->updates});
      }
    }
  }
  return runs;
}

void Stepper::Update(const std::vector<Run>& runs, const std::vector<double>& lr,
                     double grad_scale) {
  std::map<std::pair<int64_t, int64_t>, std::vector<Run>> batches;  // by (group, update)
  for (const Run& run : runs) batches[{run.group, run.update}].push_back(run);
  for (const auto& [key, batch] : batches) {
    optim::Hyper hyper = options_->groups[static_cast<size_t>(key.first)];
    hyper.lr = lr[static_cast<size_t>(key.first)];
    if (options_->device.is_cpu()) {
      UpdateOnCpu(batch, hyper, key.second, grad_scale);
    } else {
      UpdateOnDevice(batch, hyper, key.second, grad_scale);
    }
  }
}

void Stepper::UpdateOnCpu(const std::vector<Run>& runs, const optim::Hyper& hyper, int64_t update,
                          double grad_scale) {
  const auto at_offset = [](const at::Tensor& tensor, int64_t offset) -> void* {
    return static_cast<char*>(tensor.mutable_data_ptr()) +
           offset * static_cast<int64_t>(tensor.element_size());
  };
  std::vector<optim::Range> ranges;
  for (const Run& run : runs) {
    const Piece& piece = run.unit->pieces[run.segment];
    optim::Range range = {};
    range.numel = run.numel;
    range.grad = at_offset(piece.grad, run.offset);
    range.grad_dtype = FromTorch(piece.grad.scalar_type());
    range.master = at_offset(piece.master, run.offset);
    range.master_dtype = FromTorch(piece.master.scalar_type());
    if (!piece.states.empty()) range.state0 = at_offset(piece.states[0], run.offset);
    if (piece.states.size() > 1) range.state1 = at_offset(piece.states[1], run.offset);
    if (!piece.master.is_same(piece.compute)) {
      range.compute = at_offset(piece.compute, run.offset);
      range.compute_dtype = FromTorch(piece.compute.scalar_type());
    }
    ranges.push_back(range);
  }
  ThrowIfError(optim::Step(hyper, update, grad_scale, ranges, *executor_));
}

void Stepper::UpdateOnDevice(const std::vector<Run>& runs, const optim::Hyper& hyper,
                             int64_t update, double grad_scale) {
  DeviceUpdate batch;
  for (const Run& run : runs) {
    const Piece& piece = run.unit->pieces[run.segment];
    const auto part = [&run](const at::Tensor& tensor) {
      return tensor.narrow(0, run.offset, run.numel);
    };
    batch.masters.push_back(part(piece.master));
    batch.grads.push_back(part(piece.grad));
    batch.computes.push_back(piece.master.is_same(piece.compute) ? at::Tensor()
                                                                 : part(piece.compute));
    batch.states.resize(piece.states.size());
    for (size_t i = 0; i < piece.states.size(); ++i)
      batch.states[i].push_back(part(piece.states[i]));
  }
  UpdateWithTorch(batch, hyper, update, grad_scale);
}

std::string Stepper::FindNonFinite() const {
  for (const auto& unit : *units_) {
    for (const Param& param : unit->params) {
      if (!param.trainable) continue;
      const int64_t piece_index = options_->zero_stage == 0 ? 0 : collectives_->rank();
      const LocalRange range = RangeOf(*unit, param, piece_index);
      if (range.numel == 0) continue;
      const at::Tensor& grad = unit->pieces[static_cast<size_t>(param.slice.segment)].grad;
      if (!grad.narrow(0, range.offset, range.numel).isfinite().all().item<bool>())
        return param.name;
    }
  }
  return {};
}

StepResult Stepper::Step(const std::vector<double>& lr, double mean_divisor,
                         const OrderHash& issued, double forward_order_hash, int64_t step) {
  const std::vector<double> agreed = Agree(LocalSumOfSquares(), issued, forward_order_hash, step);
  StepResult result;
  result.grad_norm = std::sqrt(agreed[kSumOfSquares]) / mean_divisor;
  result.order_agreed = AllEqual(agreed[kOrder], agreed[kOrderSquared], collectives_->size());
  if (!std::isfinite(result.grad_norm)) {
    result.first_non_finite = FindNonFinite();
    return result;
  }
  double grad_scale = 1.0 / mean_divisor;
  if (options_->clip > 0.0) {
    grad_scale *= std::min(1.0, options_->clip / (result.grad_norm + 1e-6));
  }
  Update(CollectRuns(agreed), lr, grad_scale);
  result.applied = true;
  return result;
}

}  // namespace shoal::engine
