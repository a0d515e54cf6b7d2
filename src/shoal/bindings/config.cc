// Config in Python: read-only values. python/shoal/config.py gives them the face that users see.
#include "shoal/config/config.h"

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
#include "shoal/bindings/bindings.h"
#include "shoal/bindings/errors.h"
#include "shoal/config/schema.h"

namespace shoal::bindings {
namespace {

namespace nb = nanobind;
using config::Accumulate;
using config::Action;
using config::BatchSizes;
using config::Config;
using config::Dialect;
using config::Entry;
using config::Fp16Config;
using config::KeySpec;
using config::MeshConfig;
using config::NonFinite;
using config::Note;
using config::OptimizerConfig;
using config::OptimizerKind;
using config::Origin;
using config::Places;
using config::ReduceGroup;
using config::SchedulerConfig;
using config::SchedulerKind;

std::string_view NameOf(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kNone:
      return "none";
    case OptimizerKind::kAdamW:
      return "AdamW";
    case OptimizerKind::kAdam:
      return "Adam";
    case OptimizerKind::kSgd:
      return "SGD";
  }
  return "none";
}

std::string_view NameOf(SchedulerKind kind) {
  switch (kind) {
    case SchedulerKind::kNone:
      return "none";
    case SchedulerKind::kWarmupLR:
      return "WarmupLR";
    case SchedulerKind::kWarmupDecayLR:
      return "WarmupDecayLR";
    case SchedulerKind::kWarmupCosineLR:
      return "WarmupCosineLR";
  }
  return "none";
}

std::string_view NameOf(Origin origin) {
  switch (origin) {
    case Origin::kFile:
      return "file";
    case Origin::kDefault:
      return "default";
    case Origin::kDerived:
      return "derived";
  }
  return "default";
}

std::string_view NameOf(Action action) {
  switch (action) {
    case Action::kRead:
      return "read";
    case Action::kHint:
      return "hint";
    case Action::kDefaultOnly:
      return "default only";
    case Action::kIgnored:
      return "ignored";
    case Action::kRefused:
      return "refused";
  }
  return "read";
}

void BindParts(nb::module_& m) {
  nb::class_<MeshConfig>(m, "MeshConfig", "Axis sizes as written.")
      .def_ro("pp", &MeshConfig::pp)
      .def_ro("dp", &MeshConfig::dp, "None: what the world leaves.")
      .def_ro("dp_replicate", &MeshConfig::dp_replicate, "Set when dp was [replicate, shard].")
      .def_ro("ep", &MeshConfig::ep)
      .def_ro("sp", &MeshConfig::sp)
      .def_ro("tp", &MeshConfig::tp);
  nb::class_<OptimizerConfig>(m, "OptimizerConfig", "The optimizer and its hyper-parameters.")
      .def_prop_ro("kind", [](const OptimizerConfig& c) { return NameOf(c.kind); })
      .def_ro("lr", &OptimizerConfig::lr)
      .def_ro("beta1", &OptimizerConfig::beta1)
      .def_ro("beta2", &OptimizerConfig::beta2)
      .def_ro("eps", &OptimizerConfig::eps)
      .def_ro("weight_decay", &OptimizerConfig::weight_decay)
      .def_ro("momentum", &OptimizerConfig::momentum)
      .def_ro("dampening", &OptimizerConfig::dampening)
      .def_ro("nesterov", &OptimizerConfig::nesterov)
      .def_ro("bias_correction", &OptimizerConfig::bias_correction)
      .def_ro("decoupled_weight_decay", &OptimizerConfig::decoupled_weight_decay);
  nb::class_<SchedulerConfig>(m, "SchedulerConfig", "The learning-rate schedule.")
      .def_prop_ro("kind", [](const SchedulerConfig& c) { return NameOf(c.kind); })
      .def_ro("warmup_min_lr", &SchedulerConfig::warmup_min_lr)
      .def_ro("warmup_max_lr", &SchedulerConfig::warmup_max_lr, "None: the group's lr.")
      .def_ro("warmup_num_steps", &SchedulerConfig::warmup_num_steps)
      .def_ro("warmup_log", &SchedulerConfig::warmup_log, "False: linear.")
      .def_ro("total_num_steps", &SchedulerConfig::total_num_steps)
      .def_ro("warmup_min_ratio", &SchedulerConfig::warmup_min_ratio)
      .def_ro("cos_min_ratio", &SchedulerConfig::cos_min_ratio);
  nb::class_<Fp16Config>(m, "Fp16Config", "Loss scaling for float16 compute.")
      .def_ro("enabled", &Fp16Config::enabled)
      .def_ro("loss_scale", &Fp16Config::loss_scale, "0: dynamic.")
      .def_ro("initial_scale_power", &Fp16Config::initial_scale_power)
      .def_ro("loss_scale_window", &Fp16Config::loss_scale_window)
      .def_ro("hysteresis", &Fp16Config::hysteresis)
      .def_ro("consecutive_hysteresis", &Fp16Config::consecutive_hysteresis)
      .def_ro("min_loss_scale", &Fp16Config::min_loss_scale);
}

void BindRecords(nb::module_& m) {
  nb::class_<Note>(m, "ConfigNote", "Something a reader of the configuration should know.")
      .def_ro("path", &Note::path)
      .def_ro("line", &Note::line, "0: no place.")
      .def_ro("text", &Note::text);
  nb::class_<Entry>(m, "ConfigEntry", "One effective value with its origin.")
      .def_ro("path", &Entry::path)
      .def_ro("value", &Entry::value, "As JSON text.")
      .def_prop_ro("origin", [](const Entry& entry) { return NameOf(entry.origin); })
      .def_ro("line", &Entry::line, "0 unless written in a file.");
  nb::class_<BatchSizes>(m, "BatchSizes",
                         "train_batch = micro_batch x accumulation x data-parallel size.")
      .def_ro("train_batch", &BatchSizes::train_batch, "Samples per optimizer step; 0: not stated.")
      .def_ro("micro_batch", &BatchSizes::micro_batch,
              "Samples per rank and backward; 0: not stated.")
      .def_ro("accumulation", &BatchSizes::accumulation, "Backwards per optimizer step.");
  nb::class_<KeySpec>(m, "ConfigKey", "A row of the schema.")
      .def_ro("path", &KeySpec::path)
      .def_prop_ro("type", [](const KeySpec& row) { return config::TypeInWords(row); })
      .def_prop_ro("action", [](const KeySpec& row) { return NameOf(row.action); })
      .def_ro("default", &KeySpec::fallback, "JSON text in DeepSpeed's dialect; empty: none.")
      .def_prop_ro("shoal_default",
                   [](const KeySpec& row) { return row.shoal.empty() ? row.fallback : row.shoal; })
      .def_ro("note", &KeySpec::note);
}

void BindConfigClass(nb::module_& m) {
  nb::class_<Config>(m, "Config", "The effective configuration of an engine; immutable.")
      .def_ro("source", &Config::source)
      .def_prop_ro("dialect",
                   [](const Config& c) {
                     return std::string_view(c.dialect == Dialect::kShoal ? "shoal" : "deepspeed");
                   })
      .def_ro("zero_stage", &Config::zero_stage)
      .def_prop_ro("compute_dtype", [](const Config& c) { return DTypeName(c.compute_dtype); })
      .def_prop_ro("master_dtype", [](const Config& c) { return DTypeName(c.master_dtype); })
      .def_prop_ro(
          "reduce_dtype",
          [](const Config& c) { return DTypeName(c.reduce_dtype.value_or(c.compute_dtype)); })
      .def_prop_ro("accumulate_dtype",
                   [](const Config& c) { return DTypeName(c.accumulate_dtype); })
      .def_prop_ro("reduce_group",
                   [](const Config& c) {
                     const bool is_separate = c.reduce_group == ReduceGroup::kSeparate;
                     return std::string_view(is_separate ? "separate" : "shared");
                   })
      .def_prop_ro("accumulate",
                   [](const Config& c) {
                     const bool is_reduced = c.accumulate == Accumulate::kReduced;
                     return std::string_view(is_reduced ? "reduced" : "unreduced");
                   })
      .def_ro("deterministic", &Config::deterministic)
      .def_prop_ro("non_finite",
                   [](const Config& c) {
                     return std::string_view(c.non_finite == NonFinite::kSkip ? "skip" : "raise");
                   })
      .def_ro("timeout_s", &Config::timeout_s, "Seconds.")
      .def_ro("debug", &Config::debug)
      .def_ro("gradient_clipping", &Config::gradient_clipping, "0: off.")
      .def_ro("steps_per_print", &Config::steps_per_print)
      .def_ro("train_batch_size", &Config::train_batch_size)
      .def_ro("micro_batch_size", &Config::micro_batch_size)
      .def_ro("gradient_accumulation_steps", &Config::gradient_accumulation_steps)
      .def_ro("mesh", &Config::mesh)
      .def_ro("optimizer", &Config::optimizer)
      .def_ro("scheduler", &Config::scheduler)
      .def_ro("fp16", &Config::fp16)
      .def_ro("notes", &Config::notes)
      .def_ro("effective", &Config::effective);
}

}  // namespace

void BindConfig(nb::module_& m) {
  BindParts(m);
  BindRecords(m);
  BindConfigClass(m);
  m.def(
      "parse_config_text",
      [](std::string_view text, std::string_view source, bool show_places) {
        const Places places = show_places ? Places::kShow : Places::kHide;
        return ValueOrThrow(config::ParseConfigText(text, source, places), Area::kConfig);
      },
      nb::arg("text"), nb::arg("source"), nb::arg("show_places") = true);
  m.def(
      "parse_config_file",
      [](const std::string& path) {
        return ValueOrThrow(config::ParseConfigFile(path), Area::kConfig);
      },
      nb::arg("path"));
  m.def(
      "resolve_batch",
      [](const Config& config, int64_t data_parallel_size, std::string_view origin) {
        return ValueOrThrow(config::ResolveBatch(config, data_parallel_size, origin),
                            Area::kConfig);
      },
      nb::arg("config"), nb::arg("data_parallel_size"), nb::arg("origin"));
  m.def("config_schema", [] {
    const auto rows = config::Schema();
    return std::vector<KeySpec>(rows.begin(), rows.end());
  });
  m.def(
      "explain_config",
      [](std::string_view path) { return ValueOrThrow(config::Explain(path), Area::kConfig); },
      nb::arg("path"));
}

}  // namespace shoal::bindings
