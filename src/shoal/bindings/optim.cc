// The room optim/ as it is, for tests, benchmarks and tools. Engines call it in
// C++.
//
// Buffers are given as addresses (Tensor.data_ptr(), ndarray.ctypes.data), element counts and dtype
// names; the caller keeps them alive. Loops over elements run without the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/executor.h"
#include "shoal/base/status.h"
#include "shoal/bindings/bindings.h"
#include "shoal/bindings/errors.h"
#include "shoal/optim/loss_scale.h"
#include "shoal/optim/optimizers.h"
#include "shoal/optim/reduce.h"
#include "shoal/optim/schedule.h"

namespace shoal::bindings {
namespace {

namespace nb = nanobind;
using optim::Hyper;
using optim::Kind;
using optim::LossScaleOptions;
using optim::LossScaler;
using optim::LossScaleState;
using optim::Range;
using optim::Schedule;
using optim::ScheduleKind;
using optim::WarmupType;

using WithoutGil = nb::call_guard<nb::gil_scoped_release>;

[[noreturn]] void Refuse(std::string_view argument, std::string_view value,
                         std::string_view allowed) {
  throw StatusException(Status::InvalidArgument("optim", std::string(argument) + " is \"" +
                                                             std::string(value) + "\", must be " +
                                                             std::string(allowed)));
}

DType DTypeOf(std::string_view argument, std::string_view name) {
  const std::optional<DType> dtype = ParseDType(name);
  if (!dtype || !IsRealFloat(*dtype)) {
    Refuse(argument, name, "float32, float64, bfloat16 or float16");
  }
  return *dtype;
}

Kind KindOf(std::string_view name) {
  for (const Kind kind : {Kind::kAdamW, Kind::kAdam, Kind::kSgd}) {
    if (optim::KindName(kind) == name) return kind;
  }
  Refuse("kind", name, "AdamW, Adam or SGD");
}

ScheduleKind ScheduleKindOf(std::string_view name) {
  if (name == "constant") return ScheduleKind::kConstant;
  if (name == "WarmupLR") return ScheduleKind::kWarmupLR;
  if (name == "WarmupDecayLR") return ScheduleKind::kWarmupDecayLR;
  if (name == "WarmupCosineLR") return ScheduleKind::kWarmupCosineLR;
  Refuse("kind", name, "constant, WarmupLR, WarmupDecayLR or WarmupCosineLR");
}

WarmupType WarmupTypeOf(std::string_view name) {
  if (name == "log") return WarmupType::kLog;
  if (name == "linear") return WarmupType::kLinear;
  Refuse("warmup_type", name, "log or linear");
}

template <typename T = void>
T* Pointer(uintptr_t address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr): addresses are the API
}

void BindHyper(nb::module_& m) {
  nb::class_<Hyper>(m, "OptimizerHyper", "The hyper-parameters of one parameter group.")
      .def(
          "__init__",
          [](Hyper* self, std::string_view kind) { new (self) Hyper{.kind = KindOf(kind)}; },
          nb::arg("kind"), "kind: AdamW, Adam or SGD; the rest has torch's defaults, no decay.")
      .def_prop_ro("kind", [](const Hyper& hyper) { return optim::KindName(hyper.kind); })
      .def_rw("lr", &Hyper::lr)
      .def_rw("beta1", &Hyper::beta1)
      .def_rw("beta2", &Hyper::beta2)
      .def_rw("eps", &Hyper::eps)
      .def_rw("weight_decay", &Hyper::weight_decay)
      .def_rw("momentum", &Hyper::momentum)
      .def_rw("dampening", &Hyper::dampening)
      .def_rw("nesterov", &Hyper::nesterov)
      .def_rw("bias_correction", &Hyper::bias_correction)
      .def("validate", [](const Hyper& hyper) { ThrowIfError(optim::Validate(hyper)); })
      .def_prop_ro("state_names", &optim::StateNames);
}

void BindStep(nb::module_& m) {
  nb::class_<Executor>(m, "Executor", "Threads for loops over elements; started at first use.")
      .def(
          "__init__",
          [](Executor* self, int num_threads) {
            if (num_threads < 1) Refuse("num_threads", std::to_string(num_threads), ">= 1");
            new (self) Executor(num_threads);
          },
          nb::arg("num_threads"))
      .def_prop_ro("num_threads", &Executor::num_threads);
  nb::class_<Range>(m, "OptimizerRange",
                    "One run of elements of a flat shard; borrows its buffers.")
      .def(
          "__init__",
          [](Range* self, int64_t numel, uintptr_t grad, std::string_view grad_dtype,
             uintptr_t master, std::string_view master_dtype, uintptr_t state0, uintptr_t state1,
             uintptr_t compute, std::string_view compute_dtype) {
            new (self) Range{.numel = numel,
                             .grad = Pointer<const void>(grad),
                             .grad_dtype = DTypeOf("grad_dtype", grad_dtype),
                             .master = Pointer(master),
                             .master_dtype = DTypeOf("master_dtype", master_dtype),
                             .state0 = Pointer(state0),
                             .state1 = Pointer(state1),
                             .compute = Pointer(compute),
                             .compute_dtype = DTypeOf("compute_dtype", compute_dtype)};
          },
          nb::arg("numel"), nb::kw_only(), nb::arg("grad"), nb::arg("grad_dtype"),
          nb::arg("master"), nb::arg("master_dtype"), nb::arg("state0") = 0, nb::arg("state1") = 0,
          nb::arg("compute") = 0, nb::arg("compute_dtype") = "bfloat16",
          "Addresses of the first elements; 0 where a buffer is not used.");
  m.def(
      "optimizer_step",
      [](const Hyper& hyper, int64_t step, double grad_scale, const std::vector<Range>& ranges,
         Executor& executor) {
        ThrowIfError(optim::Step(hyper, step, grad_scale, ranges, executor));
      },
      nb::arg("hyper"), nb::kw_only(), nb::arg("step"), nb::arg("grad_scale"), nb::arg("ranges"),
      nb::arg("executor"), WithoutGil(), "Update number `step` (from 1) of all ranges.");
}

void BindReduce(nb::module_& m) {
  m.def(
      "sum_of_squares",
      [](uintptr_t data, std::string_view dtype, int64_t numel, Executor& executor) {
        if (numel < 0) Refuse("numel", std::to_string(numel), ">= 0");
        if (data == 0 && numel > 0) Refuse("data", "0", "an address");
        return optim::SumOfSquares(Pointer<const void>(data), DTypeOf("dtype", dtype), numel,
                                   executor);
      },
      nb::arg("data"), nb::kw_only(), nb::arg("dtype"), nb::arg("numel"), nb::arg("executor"),
      WithoutGil());
  m.def(
      "sum_pieces",
      [](const std::vector<uintptr_t>& pieces, std::string_view pieces_dtype, uintptr_t dst,
         std::string_view dst_dtype, bool accumulate, int64_t numel, Executor& executor) {
        std::vector<const void*> pointers;
        pointers.reserve(pieces.size());
        for (const uintptr_t piece : pieces) pointers.push_back(Pointer<const void>(piece));
        ThrowIfError(optim::SumPieces(pointers, DTypeOf("pieces_dtype", pieces_dtype), Pointer(dst),
                                      DTypeOf("dst_dtype", dst_dtype), accumulate, numel,
                                      executor));
      },
      nb::arg("pieces"), nb::kw_only(), nb::arg("pieces_dtype"), nb::arg("dst"),
      nb::arg("dst_dtype"), nb::arg("accumulate"), nb::arg("numel"), nb::arg("executor"),
      WithoutGil());
  m.def(
      "convert_buffer",
      [](uintptr_t src, std::string_view src_dtype, uintptr_t dst, std::string_view dst_dtype,
         int64_t numel, Executor& executor) {
        ThrowIfError(optim::Convert(Pointer<const void>(src), DTypeOf("src_dtype", src_dtype),
                                    Pointer(dst), DTypeOf("dst_dtype", dst_dtype), numel,
                                    executor));
      },
      nb::arg("src"), nb::kw_only(), nb::arg("src_dtype"), nb::arg("dst"), nb::arg("dst_dtype"),
      nb::arg("numel"), nb::arg("executor"), WithoutGil());
}

void BindSchedule(nb::module_& m) {
  nb::class_<Schedule>(m, "LearningRateSchedule",
                       "Learning rate as a function of the completed steps.")
      .def(
          "__init__",
          [](Schedule* self, std::string_view kind, std::string_view warmup_type) {
            new (self)
                Schedule{.kind = ScheduleKindOf(kind), .warmup_type = WarmupTypeOf(warmup_type)};
          },
          nb::arg("kind"), nb::kw_only(), nb::arg("warmup_type") = "log",
          "kind: constant, WarmupLR, WarmupDecayLR or WarmupCosineLR.")
      .def_rw("warmup_num_steps", &Schedule::warmup_num_steps)
      .def_rw("total_num_steps", &Schedule::total_num_steps)
      .def_rw("warmup_min_lr", &Schedule::warmup_min_lr)
      .def_rw("warmup_max_lr", &Schedule::warmup_max_lr, nb::arg().none(), "None: the group's.")
      .def_rw("warmup_min_ratio", &Schedule::warmup_min_ratio)
      .def_rw("cos_min_ratio", &Schedule::cos_min_ratio)
      .def(
          "learning_rate",
          [](const Schedule& schedule, double base_lr, int64_t completed_steps) {
            ThrowIfError(optim::Validate(schedule));
            if (completed_steps < 0) {
              Refuse("completed_steps", std::to_string(completed_steps), ">= 0");
            }
            return optim::LearningRate(schedule, base_lr, completed_steps);
          },
          nb::arg("base_lr"), nb::kw_only(), nb::arg("completed_steps"));
}

void BindLossScaler(nb::module_& m) {
  nb::class_<LossScaleOptions>(m, "LossScaleOptions", "Static or dynamic loss scaling.")
      .def(nb::init<>())
      .def_rw("loss_scale", &LossScaleOptions::loss_scale, "0: dynamic.")
      .def_rw("initial_scale_power", &LossScaleOptions::initial_scale_power)
      .def_rw("loss_scale_window", &LossScaleOptions::loss_scale_window)
      .def_rw("hysteresis", &LossScaleOptions::hysteresis)
      .def_rw("consecutive_hysteresis", &LossScaleOptions::consecutive_hysteresis)
      .def_rw("min_loss_scale", &LossScaleOptions::min_loss_scale);
  nb::class_<LossScaleState>(m, "LossScaleState", "What a checkpoint keeps of a LossScaler.")
      .def(nb::init<>())
      .def_rw("scale", &LossScaleState::scale)
      .def_rw("num_updates", &LossScaleState::num_updates)
      .def_rw("last_overflow", &LossScaleState::last_overflow, "-1: none yet.")
      .def_rw("hysteresis", &LossScaleState::hysteresis, "Units left.");
  nb::class_<LossScaler>(m, "LossScaler", "The factor on the loss of float16 training.")
      .def(
          "__init__",
          [](LossScaler* self, const LossScaleOptions& options) {
            ThrowIfError(optim::Validate(options));
            new (self) LossScaler(options);
          },
          nb::arg("options"))
      .def_prop_ro("scale", &LossScaler::scale)
      .def_prop_ro("is_dynamic", &LossScaler::is_dynamic)
      .def(
          "update",
          [](LossScaler& scaler, bool overflow) { ThrowIfError(scaler.Update(overflow)); },
          nb::arg("overflow"))
      .def_prop_ro("state", [](const LossScaler& scaler) { return scaler.state(); })
      .def(
          "set_state",
          [](LossScaler& scaler, const LossScaleState& state) {
            ThrowIfError(scaler.SetState(state));
          },
          nb::arg("state"));
}

}  // namespace

void BindOptim(nb::module_& m) {
  BindHyper(m);
  BindStep(m);
  BindReduce(m);
  BindSchedule(m);
  BindLossScaler(m);
}

}  // namespace shoal::bindings
