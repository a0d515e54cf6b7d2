#include "shoal/optim/optimizers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shoal/base/check.h"
#include "shoal/base/dtype.h"
#include "shoal/base/executor.h"
#include "shoal/base/status.h"
#include "shoal/optim/kernels_internal.h"

namespace shoal::optim {
namespace {

using internal::AdamScalars;
using internal::IndexOf;
using internal::Kernels;
using internal::SgdScalars;
using internal::Tile;

constexpr std::string_view kStep = "optimizer step";

// Elements per tile: the buffers of one tile of float32 masters fill half of a first-level cache.
constexpr int64_t kTile = 512;
// The least number of elements that is worth waking a thread.
constexpr int64_t kGrain = 16384;
// Threads meet inside a range only at multiples of this: no two write one cache line of it if the
// range is aligned to cache lines.
constexpr int64_t kCut = 64;

// A hyper-parameter and the rule that it must keep.
struct Rule {
  std::string_view name;
  double value;
  bool holds;
  std::string_view text;
};

Status Check(std::span<const Rule> rules) {
  for (const Rule& rule : rules) {
    if (!rule.holds) {
      return Status::InvalidArgument(kStep,
                                     fmt::format("{} is {}, {}", rule.name, rule.value, rule.text));
    }
  }
  return {};
}

bool IsAtLeastZero(double value) { return value >= 0.0 && std::isfinite(value); }

Rule AtLeastZero(std::string_view name, double value) {
  return {name, value, IsAtLeastZero(value), "must be finite and >= 0"};
}

Rule Beta(std::string_view name, double value) {
  return {name, value, value >= 0.0 && value < 1.0, "must be in [0, 1)"};
}

Status CheckBuffer(std::string_view name, const void* pointer, DType dtype) {
  if (pointer == nullptr) return Status::InvalidArgument(kStep, fmt::format("{} is null", name));
  const int64_t bytes = DTypeBytes(dtype);
  if (reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) != 0) {
    return Status::InvalidArgument(kStep, fmt::format("{} ({}) is at address {}, must be at a "
                                                      "multiple of {} bytes",
                                                      name, DTypeName(dtype), pointer, bytes));
  }
  return {};
}

Status CheckDType(std::string_view name, DType dtype, bool holds, std::string_view allowed) {
  if (holds) return {};
  return Status::InvalidArgument(
      kStep, fmt::format("{} is {}, must be {}", name, DTypeName(dtype), allowed));
}

Status CheckRange(const Range& range, int64_t num_states) {
  if (range.numel < 0) {
    return Status::InvalidArgument(kStep, fmt::format("numel is {}, must be >= 0", range.numel));
  }
  constexpr std::string_view kFloats = "float32, float64, bfloat16 or float16";
  const bool is_master =
      range.master_dtype == DType::kFloat32 || range.master_dtype == DType::kFloat64;
  SHOAL_RETURN_IF_ERROR(
      CheckDType("master_dtype", range.master_dtype, is_master, "float32 or float64"));
  SHOAL_RETURN_IF_ERROR(
      CheckDType("grad_dtype", range.grad_dtype, IsRealFloat(range.grad_dtype), kFloats));
  if (range.numel == 0) return {};
  SHOAL_RETURN_IF_ERROR(CheckBuffer("grad", range.grad, range.grad_dtype));
  SHOAL_RETURN_IF_ERROR(CheckBuffer("master", range.master, range.master_dtype));
  if (num_states > 0) {
    SHOAL_RETURN_IF_ERROR(CheckBuffer("state0", range.state0, range.master_dtype));
  }
  if (num_states > 1) {
    SHOAL_RETURN_IF_ERROR(CheckBuffer("state1", range.state1, range.master_dtype));
  }
  if (range.compute == nullptr) return {};
  SHOAL_RETURN_IF_ERROR(
      CheckDType("compute_dtype", range.compute_dtype, IsRealFloat(range.compute_dtype), kFloats));
  return CheckBuffer("compute", range.compute, range.compute_dtype);
}

AdamScalars MakeAdamScalars(const Hyper& hyper, int64_t step, double grad_scale) {
  const auto t = static_cast<double>(step);
  const double correction1 = hyper.bias_correction ? 1.0 - std::pow(hyper.beta1, t) : 1.0;
  const double correction2 = hyper.bias_correction ? 1.0 - std::pow(hyper.beta2, t) : 1.0;
  const bool decoupled = hyper.kind == Kind::kAdamW;
  return {
      .grad_scale = grad_scale,
      .shrink = decoupled ? 1.0 - hyper.lr * hyper.weight_decay : 1.0,
      .l2 = decoupled ? 0.0 : hyper.weight_decay,
      .one_minus_beta1 = 1.0 - hyper.beta1,
      .beta1 = hyper.beta1,
      .beta2 = hyper.beta2,
      .one_minus_beta2 = 1.0 - hyper.beta2,
      .sqrt_correction2 = std::sqrt(correction2),
      .eps = hyper.eps,
      .minus_step_size = -(hyper.lr / correction1),
  };
}

SgdScalars MakeSgdScalars(const Hyper& hyper, int64_t step, double grad_scale) {
  return {
      .grad_scale = grad_scale,
      .l2 = hyper.weight_decay,
      .momentum = hyper.momentum,
      .one_minus_dampening = 1.0 - hyper.dampening,
      .minus_lr = -hyper.lr,
      .has_momentum = hyper.momentum != 0.0,
      .is_first = step == 1,
      .nesterov = hyper.nesterov,
  };
}

// One call of Step: everything that its tiles share. Const after construction, so threads share it.
class Update {
 public:
  Update(const Hyper& hyper, int64_t step, double grad_scale)
      : kernels_(internal::ChooseKernels()),
        is_sgd_(hyper.kind == Kind::kSgd),
        adam_(MakeAdamScalars(hyper, step, grad_scale)),
        sgd_(MakeSgdScalars(hyper, step, grad_scale)) {}

  // Updates elements [begin, end) of `range`, tile by tile.
  void Run(const Range& range, int64_t begin, int64_t end) const {
    for (int64_t offset = begin; offset < end; offset += kTile) {
      RunTile(range, offset, std::min(kTile, end - offset));
    }
  }

 private:
  static const void* At(const void* base, DType dtype, int64_t offset) {
    return static_cast<const std::byte*>(base) + offset * DTypeBytes(dtype);
  }
  // Null stays null.
  static void* At(void* base, DType dtype, int64_t offset) {
    if (base == nullptr) return nullptr;
    return static_cast<std::byte*>(base) + offset * DTypeBytes(dtype);
  }

  void RunTile(const Range& range, int64_t offset, int64_t n) const {
    alignas(64) double scratch[kTile];  // the gradients in the master's type
    const size_t master_type = IndexOf(range.master_dtype);
    Tile tile = {
        .grad = At(range.grad, range.grad_dtype, offset),
        .master = At(range.master, range.master_dtype, offset),
        .state0 = At(range.state0, range.master_dtype, offset),
        .state1 = At(range.state1, range.master_dtype, offset),
        .n = n,
    };
    if (range.grad_dtype != range.master_dtype) {
      kernels_.convert[IndexOf(range.grad_dtype)][master_type](tile.grad, scratch, n);
      tile.grad = scratch;
    }
    if (is_sgd_) {
      kernels_.sgd[master_type](sgd_, tile);
    } else {
      kernels_.adam[master_type](adam_, tile);
    }
    if (range.compute != nullptr) {
      kernels_.convert[master_type][IndexOf(range.compute_dtype)](
          tile.master, At(range.compute, range.compute_dtype, offset), n);
    }
  }

  const Kernels& kernels_;
  const bool is_sgd_;
  const AdamScalars adam_;
  const SgdScalars sgd_;
};

// Where a cut at `position` of a range falls: at a multiple of kCut or at the range's end.
int64_t CutAt(int64_t position, int64_t numel) {
  if (position <= 0) return 0;
  if (position >= numel) return numel;
  return position - position % kCut;
}

}  // namespace

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kAdamW:
      return "AdamW";
    case Kind::kAdam:
      return "Adam";
    case Kind::kSgd:
      return "SGD";
  }
  SHOAL_CHECK(false, "unknown optimizer kind");
}

Status Validate(const Hyper& hyper) {
  std::vector<Rule> rules = {AtLeastZero("lr", hyper.lr),
                             AtLeastZero("weight_decay", hyper.weight_decay)};
  if (hyper.kind == Kind::kSgd) {
    rules.push_back(AtLeastZero("momentum", hyper.momentum));
    rules.push_back(
        {"dampening", hyper.dampening, std::isfinite(hyper.dampening), "must be finite"});
    if (hyper.nesterov) {
      rules.push_back(
          {"momentum", hyper.momentum, hyper.momentum > 0.0, "must be > 0 with nesterov"});
      rules.push_back(
          {"dampening", hyper.dampening, hyper.dampening == 0.0, "must be 0 with nesterov"});
    }
  } else {
    rules.push_back(Beta("beta1", hyper.beta1));
    rules.push_back(Beta("beta2", hyper.beta2));
    rules.push_back(AtLeastZero("eps", hyper.eps));
  }
  return Check(rules);
}

int64_t NumStates(const Hyper& hyper) {
  if (hyper.kind != Kind::kSgd) return 2;
  return hyper.momentum != 0.0 ? 1 : 0;
}

std::vector<std::string_view> StateNames(const Hyper& hyper) {
  if (hyper.kind != Kind::kSgd) return {"exp_avg", "exp_avg_sq"};
  if (hyper.momentum != 0.0) return {"momentum_buffer"};
  return {};
}

Status Step(const Hyper& hyper, int64_t step, double grad_scale, std::span<const Range> ranges,
            Executor& executor) {
  SHOAL_RETURN_IF_ERROR(Validate(hyper));
  if (step < 1) {
    return Status::InvalidArgument(kStep, fmt::format("step is {}, must be >= 1", step));
  }
  if (!std::isfinite(grad_scale)) {
    return Status::InvalidArgument(kStep,
                                   fmt::format("grad_scale is {}, must be finite", grad_scale));
  }
  std::vector<int64_t> starts = {0};  // of each range among the elements of all, then their number
  starts.reserve(ranges.size() + 1);
  const int64_t num_states = NumStates(hyper);
  for (size_t i = 0; i < ranges.size(); ++i) {
    SHOAL_RETURN_IF_ERROR(CheckRange(ranges[i], num_states)
                              .WithContext(fmt::format("range {} of {}", i, ranges.size())));
    starts.push_back(starts.back() + ranges[i].numel);
  }
  const Update update(hyper, step, grad_scale);
  executor.ParallelFor(0, starts.back(), kGrain, [&](int64_t begin, int64_t end) {
    auto next = std::upper_bound(starts.begin(), starts.end(), begin);
    for (auto r = static_cast<size_t>(next - starts.begin()) - 1;
         r < ranges.size() && starts[r] < end; ++r) {
      const int64_t numel = ranges[r].numel;
      update.Run(ranges[r], CutAt(begin - starts[r], numel), CutAt(end - starts[r], numel));
    }
  });
  return {};
}

}  // namespace shoal::optim
