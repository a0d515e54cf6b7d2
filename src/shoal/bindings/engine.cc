// Binds the engine. The module hooks are callables made here, so that a forward enters C++
// directly.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/executor.h"
#include "shoal/bindings/bindings.h"
#include "shoal/bindings/tensor_caster.h"  // IWYU pragma: keep
#include "shoal/bindings/tensor_tree.h"
#include "shoal/config/config.h"
#include "shoal/plan/unit_packer.h"
#include "shoal/torch/comm/collectives.h"
#include "shoal/torch/engine/engine.h"
#include "shoal/torch/engine/options_from_config.h"

namespace shoal::bindings {
namespace {

namespace nb = nanobind;
using engine::Engine;
using EnginePtr = std::shared_ptr<Engine>;
using WithoutGil = nb::call_guard<nb::gil_scoped_release>;

// Groups by name as torch registered them; empty names: a rank alone.
std::unique_ptr<comm::Collectives> MakeCollectives(const std::string& gather_group,
                                                   const std::string& reduce_group,
                                                   at::Device device, double timeout_s,
                                                   Executor* executor) {
  if (gather_group.empty()) return comm::MakeSelfCollectives();
  return comm::MakeC10dCollectives(gather_group, reduce_group, device, timeout_s, executor);
}

// (unit name, [(parameter name, aliases, tensor, group)])
using PyParam = std::tuple<std::string, std::vector<std::string>, at::Tensor, int64_t>;
using PyUnit = std::pair<std::string, std::vector<PyParam>>;

EnginePtr Create(const config::Config& config, const std::string& device, int64_t accumulation,
                 const std::vector<std::map<std::string, double>>& groups,
                 const std::vector<PyUnit>& units, const std::vector<at::Tensor>& buffers,
                 const std::pair<std::string, std::string>& group_names) {
  const engine::Options options =
      engine::OptionsFromConfig(config, at::Device(device), accumulation, groups);
  std::vector<engine::UnitDef> defs;
  for (const auto& [name, params] : units) {
    engine::UnitDef& def = defs.emplace_back();
    def.name = name;
    for (const auto& [param, aliases, tensor, group] : params) {
      def.params.push_back({param, aliases, tensor, group});
    }
  }
  const nb::gil_scoped_release released;
  auto executor = std::make_unique<Executor>(at::get_num_threads());
  auto collectives = MakeCollectives(group_names.first, group_names.second, options.device,
                                     config.timeout_s, executor.get());
  return Engine::Create(options, defs, buffers, std::move(executor), std::move(collectives));
}

// forward pre-hook with kwargs: None, or the (args, kwargs) with wrapped inputs.
nb::object PreForward(const EnginePtr& engine, int64_t unit, nb::handle args, nb::handle kwargs) {
  std::vector<at::Tensor> inputs;
  CollectReplaceable(args, inputs);
  CollectReplaceable(kwargs, inputs);
  {
    const nb::gil_scoped_release released;
    engine->EnterUnit(unit, inputs);
  }
  if (inputs.empty()) return nb::none();
  size_t next = 0;
  nb::object new_args = ReplaceTensors(args, inputs, next);
  nb::object new_kwargs = ReplaceTensors(kwargs, inputs, next);
  return nb::make_tuple(new_args, new_kwargs);
}

void PostForward(const EnginePtr& engine, int64_t unit, nb::handle outputs) {
  std::vector<at::Tensor> tensors;
  CollectGradTensors(outputs, tensors);
  const nb::gil_scoped_release released;
  engine->LeaveUnit(unit, tensors);
}

void BindHooks(nb::class_<Engine>& cls) {
  cls.def(
         "unit_pre_forward",
         [](const EnginePtr& engine, int64_t unit) {
           return nb::cpp_function([engine, unit](nb::handle, nb::handle args, nb::handle kwargs) {
             return PreForward(engine, unit, args, kwargs);
           });
         },
         nb::sig(
             "def unit_pre_forward(self, unit: int) -> collections.abc.Callable[..., typing.Any]"))
      .def(
          "unit_post_forward",
          [](const EnginePtr& engine, int64_t unit) {
            // After an exception in the forward the outputs are None.
            return nb::cpp_function(
                [engine, unit](nb::handle, nb::handle, nb::handle outputs) {
                  PostForward(engine, unit, outputs);
                },
                nb::arg("module"), nb::arg("args"), nb::arg("outputs").none());
          },
          nb::sig("def unit_post_forward(self, unit: int) -> collections.abc.Callable[..., "
                  "typing.Any]"))
      .def(
          "model_pre_forward",
          [](const EnginePtr& engine) {
            return nb::cpp_function([engine](nb::handle, nb::handle) {
              const nb::gil_scoped_release released;
              engine->BeginForward();
            });
          },
          nb::sig("def model_pre_forward(self) -> collections.abc.Callable[..., typing.Any]"))
      .def(
          "model_post_forward",
          [](const EnginePtr& engine) {
            return nb::cpp_function(
                [engine](nb::handle, nb::handle, nb::handle outputs) {
                  std::vector<at::Tensor> tensors;
                  CollectGradTensors(outputs, tensors);
                  const nb::gil_scoped_release released;
                  engine->EndForward(tensors);
                },
                nb::arg("module"), nb::arg("args"), nb::arg("outputs").none());
          },
          nb::sig("def model_post_forward(self) -> collections.abc.Callable[..., typing.Any]"));
}

nb::dict MemoryDict(const Engine& engine) {
  const engine::MemoryUse use = engine.memory();
  nb::dict result;
  result["params"] = use.params;
  result["master"] = use.master;
  result["optimizer"] = use.optimizer;
  result["gradients"] = use.gradients;
  result["arena"] = use.arena;
  result["overflow_peak"] = use.overflow_peak;
  result["overflow_count"] = use.overflow_count;
  result["padding"] = use.padding;
  return result;
}

nb::dict CommCounts(Engine& engine) {
  nb::dict result;
  for (const auto& [name, count] : engine.collectives().Counts()) {
    nb::dict entry;
    entry["count"] = count.count;
    entry["bytes"] = count.bytes;
    result[name.c_str()] = entry;
  }
  return result;
}

nb::list UnitList(const Engine& engine) {
  nb::list result;
  for (const auto& unit : engine.units()) {
    nb::list params;
    for (const engine::Param& param : unit->params) params.append(param.name);
    nb::list segments;
    for (const plan::Segment& segment : unit->layout.segments) {
      nb::dict entry;
      entry["dtype"] = std::string(DTypeName(segment.dtype));
      entry["trainable"] = segment.trainable;
      entry["numel"] = segment.numel;
      entry["piece_numel"] = segment.piece_numel;
      segments.append(entry);
    }
    nb::dict entry;
    entry["name"] = unit->name;
    entry["params"] = params;
    entry["segments"] = segments;
    entry["bytes"] = unit->layout.total_bytes;
    entry["padding_bytes"] = unit->layout.padding_bytes;
    result.append(entry);
  }
  return result;
}

// (param, role, 1-D tensor, global shape, flat_begin, replicated)
nb::list StatePieceList(Engine& engine) {
  std::vector<engine::StatePiece> pieces;
  {
    const nb::gil_scoped_release released;
    pieces = engine.StatePieces();
  }
  nb::list result;
  for (const engine::StatePiece& piece : pieces) {
    result.append(nb::make_tuple(piece.param, piece.role, piece.data, piece.global_shape,
                                 piece.flat_begin, piece.replicated));
  }
  return result;
}

void BindState(nb::class_<Engine>& cls) {
  cls.def("unshard", &Engine::Unshard, WithoutGil())
      .def("reshard_and_absorb", &Engine::ReshardAndAbsorb, WithoutGil())
      .def("full_state", &Engine::FullState, nb::arg("role"), nb::arg("keep"), WithoutGil())
      .def("full_gradient", &Engine::FullGradient, nb::arg("param"), WithoutGil())
      .def("state_pieces", &StatePieceList)
      .def("state_loaded", &Engine::StateLoaded, WithoutGil())
      .def_prop_ro("param_updates", &Engine::ParamUpdates)
      .def("set_param_updates", &Engine::SetParamUpdates)
      .def("counters",
           [](const Engine& engine) {
             const engine::Counters counters = engine.counters();
             return nb::make_tuple(counters.global_step, counters.skipped_steps,
                                   counters.micro_step);
           })
      .def("set_counters",
           [](Engine& engine, int64_t global_step, int64_t skipped_steps) {
             engine.SetCounters({global_step, skipped_steps, 0});
           })
      .def_prop_ro("loss_scaler", &Engine::loss_scaler, nb::rv_policy::reference_internal)
      .def("aliases",
           [](const Engine& engine) {
             std::vector<std::pair<std::string, std::vector<std::string>>> result;
             for (const auto& unit : engine.units()) {
               for (const engine::Param& param : unit->params)
                 result.emplace_back(param.name, param.aliases);
             }
             return result;
           })
      .def("memory", &MemoryDict)
      .def("comm_counts", &CommCounts)
      .def("reset_comm_counts", [](Engine& engine) { engine.collectives().ResetCounts(); })
      .def("units", &UnitList)
      .def_prop_ro("arena_plan", &Engine::arena_plan)
      .def(
          "all_gather_text",
          [](Engine& engine, const std::string& text) {
            return engine.collectives().AllGatherText(text);
          },
          WithoutGil());
}

}  // namespace

void BindEngine(nb::module_& m) {
  nb::class_<Engine> cls(m, "Engine");
  cls.def_static("create", &Create, nb::arg("config"), nb::arg("device"), nb::arg("accumulation"),
                 nb::arg("groups"), nb::arg("units"), nb::arg("buffers"), nb::arg("group_names"))
      .def("begin_backward", &Engine::BeginBackward, WithoutGil())
      .def("end_backward", &Engine::EndBackward, WithoutGil())
      .def("abort_backward", &Engine::AbortBackward, WithoutGil())
      .def("step", &Engine::Step, WithoutGil())
      .def("reset", &Engine::Reset, WithoutGil())
      .def("close", &Engine::Close, WithoutGil())
      .def_prop_ro("loss_scale", &Engine::loss_scale)
      .def_prop_ro("is_boundary", &Engine::is_boundary)
      .def_prop_ro("grad_norm", &Engine::grad_norm)
      .def_prop_ro("was_step_applied", &Engine::was_step_applied)
      .def_prop_ro("learning_rates", &Engine::LearningRates)
      .def_prop_ro("rank", [](Engine& engine) { return engine.collectives().rank(); })
      .def_prop_ro("world_size", [](Engine& engine) { return engine.collectives().size(); })
      .def_prop_ro("state_names", &Engine::state_names);
  BindHooks(cls);
  BindState(cls);
}

}  // namespace shoal::bindings
