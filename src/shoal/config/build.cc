#include "shoal/config/build_internal.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "shoal/base/check.h"
#include "shoal/base/dtype.h"
#include "shoal/config/check_internal.h"
#include "shoal/config/config.h"
#include "shoal/config/json_internal.h"
#include "shoal/config/schema.h"
#include "shoal/config/suggest_internal.h"

namespace shoal::config {
namespace {

// A value with its origin.
template <typename T>
struct Picked {
  T value{};
  Origin origin = Origin::kDefault;
  int64_t line = 0;
};

std::string NumberText(double value) { return fmt::format("{}", value); }
std::string BoolText(bool value) { return value ? "true" : "false"; }
std::string Quote(std::string_view text) { return fmt::format("\"{}\"", text); }
std::string DTypeText(DType dtype) { return Quote(DTypeName(dtype)); }

std::string OptionalText(const std::optional<int64_t>& value) {
  return value ? fmt::format("{}", *value) : std::string("null");
}

class Builder {
 public:
  explicit Builder(Checked* checked) : checked_(*checked) {}

  Config Build() {
    config_.dialect = checked_.dialect;
    BuildBatch();
    BuildStage();
    BuildPrecision();
    BuildFp16();
    BuildGeneral();
    BuildMesh();
    BuildOptimizer();
    BuildScheduler();
    return std::move(config_);
  }

 private:
  bool IsShoal() const { return config_.dialect == Dialect::kShoal; }

  // The document's value of a row, or null.
  const Node* Find(std::string_view path) const {
    const auto found = checked_.values.find(path);
    return found == checked_.values.end() ? nullptr : found->second;
  }

  int64_t LineOf(const Node* node) const { return ShownLine(checked_, node->position); }

  // The document's value, or the dialect's default; a null node when there is neither.
  Picked<Node> Pick(std::string_view path) const {
    if (const Node* node = Find(path)) return {*node, Origin::kFile, LineOf(node)};
    const KeySpec* spec = FindKey(path);
    SHOAL_CHECK(spec != nullptr, path);
    const std::string_view text = IsShoal() && !spec->shoal.empty() ? spec->shoal : spec->fallback;
    if (text.empty()) return {};
    const Document table = ReadJson(fmt::format("{{\"value\": {}}}", text));
    return {*table.root.Find("value"), Origin::kDefault, 0};
  }

  template <typename T>
  void Record(std::string_view path, std::string value, const Picked<T>& picked) {
    config_.effective.push_back({DisplayPath(path), std::move(value), picked.origin, picked.line});
  }

  double TakeFloat(std::string_view path) {
    const Picked<Node> picked = Pick(path);
    Record(path, NumberText(picked.value.number), picked);
    return picked.value.number;
  }

  bool TakeBool(std::string_view path) {
    const Picked<Node> picked = Pick(path);
    Record(path, BoolText(picked.value.boolean), picked);
    return picked.value.boolean;
  }

  int64_t TakeInt(std::string_view path) {
    const Picked<Node> picked = Pick(path);
    const int64_t value = ToInt(picked.value);
    Record(path, fmt::format("{}", value), picked);
    return value;
  }

  std::optional<int64_t> TakeOptionalInt(std::string_view path) {
    const Picked<Node> picked = Pick(path);
    std::optional<int64_t> value;
    if (picked.value.kind == Kind::kNumber) value = ToInt(picked.value);
    Record(path, OptionalText(value), picked);
    return value;
  }

  // True when the text is `first`, false when it is the other choice.
  bool TakeChoice(std::string_view path, std::string_view first) {
    const Picked<Node> picked = Pick(path);
    std::string lower = picked.value.text;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    Record(path, Quote(lower), picked);
    return lower == first;
  }

  std::optional<Picked<DType>> FindDType(std::string_view path) const {
    const Node* node = Find(path);
    if (node == nullptr) return std::nullopt;
    return Picked<DType>{*ParseDType(node->text), Origin::kFile, LineOf(node)};
  }

  void AddFault(const Node* node, std::string_view path, std::string message) {
    const Position position = node == nullptr ? Position{} : node->position;
    checked_.faults.push_back({position, DisplayPath(path), std::move(message), false});
  }

  void AddNote(std::string_view path, int64_t line, std::string text) {
    checked_.notes.push_back({std::string(path), line, std::move(text)});
  }

  // Two keys of one meaning: an error unless they agree.
  void RequireEqual(std::string_view first, std::string_view second, bool agree) {
    const Node* a = Find(first);
    const Node* b = Find(second);
    if (a == nullptr || b == nullptr || agree) return;
    AddFault(b, second,
             fmt::format("found {}, but {}{} says {}; both mean the same, keep one",
                         FoundInWords(*b), first, InLine(checked_, a->position), FoundInWords(*a)));
  }

  // --- batch ---

  void BuildBatch() {
    config_.train_batch_size = TakeOptionalInt("train_batch_size");
    config_.micro_batch_size = TakeOptionalInt("train_micro_batch_size_per_gpu");
    config_.gradient_accumulation_steps = TakeOptionalInt("gradient_accumulation_steps");
    CheckBatchDivides();
  }

  // Contradictions that no data-parallel size can solve; the others wait for ResolveBatch.
  void CheckBatchDivides() {
    if (!config_.train_batch_size) return;
    const int64_t train = *config_.train_batch_size;
    const int64_t micro = config_.micro_batch_size.value_or(1);
    const int64_t steps = config_.gradient_accumulation_steps.value_or(1);
    const int64_t product = micro * steps;  // both below 2^31, see Range::kCount
    if (train % product == 0) return;
    const int64_t below = train / product * product;
    const std::string nearest = below > 0 ? fmt::format("the nearest multiples of {} are {} and {}",
                                                        product, below, below + product)
                                          : fmt::format("the smallest is {}", product);
    std::string factors;
    if (config_.micro_batch_size) factors += fmt::format("micro batch {} x ", micro);
    if (config_.gradient_accumulation_steps) factors += fmt::format("accumulation {} x ", steps);
    AddFault(Find("train_batch_size"), "train_batch_size",
             fmt::format("{} is not {}any data-parallel size; {}", train, factors, nearest));
  }

  // --- ZeRO ---

  void BuildStage() {
    const Node* zero = Find("zero_optimization");
    if (zero == nullptr || zero->kind != Kind::kBool) {
      config_.zero_stage = static_cast<int>(TakeInt("zero_optimization.stage"));
      return;
    }
    config_.zero_stage = zero->boolean ? 1 : 0;
    const Picked<int> picked{config_.zero_stage, Origin::kFile, LineOf(zero)};
    Record("zero_optimization.stage", fmt::format("{}", config_.zero_stage), picked);
    AddNote("zero_optimization", LineOf(zero),
            fmt::format("{} means stage {}; write {{\"stage\": {}}}", BoolText(zero->boolean),
                        config_.zero_stage, config_.zero_stage));
  }

  // --- precision ---

  void BuildPrecision() {
    const Picked<DType> compute = ComputeDType();
    config_.compute_dtype = compute.value;
    Record("shoal.compute_dtype", DTypeText(compute.value), compute);
    BuildMasterDType();
    BuildReduceDType();
    BuildAccumulateDType();
    const Node* param = Find("data_types.param_dtype");
    if (param != nullptr && ParseDType(param->text) != config_.compute_dtype) {
      AddFault(param, "data_types.param_dtype",
               fmt::format("must equal the compute dtype {}, found {}",
                           DTypeName(config_.compute_dtype), FoundInWords(*param)));
    }
  }

  Picked<DType> ComputeDType() {
    const Node* bf16 = Find("bf16.enabled");
    const Node* fp16 = Find("fp16.enabled");
    const bool bf16_on = bf16 != nullptr && bf16->boolean;
    const bool fp16_on = fp16 != nullptr && fp16->boolean;
    if (bf16_on && fp16_on) {
      AddFault(fp16, "fp16.enabled",
               fmt::format("bf16.enabled{} and fp16.enabled are both true; choose one",
                           InLine(checked_, bf16->position)));
    }
    if (const auto named = FindDType("shoal.compute_dtype")) {
      CheckEnabledAgrees("bf16.enabled", DType::kBFloat16, named->value);
      CheckEnabledAgrees("fp16.enabled", DType::kFloat16, named->value);
      return *named;
    }
    if (bf16_on) return {DType::kBFloat16, Origin::kFile, LineOf(bf16)};
    if (fp16_on) return {DType::kFloat16, Origin::kFile, LineOf(fp16)};
    if (IsShoal() && bf16 != nullptr) {
      AddFault(
          bf16, "bf16.enabled",
          "bf16 is the default of this dialect and is turned off here, but nothing else is on; "
          "write shoal.compute_dtype");
    }
    return {IsShoal() ? DType::kBFloat16 : DType::kFloat32, Origin::kDefault, 0};
  }

  void CheckEnabledAgrees(std::string_view path, DType dtype, DType compute) {
    const Node* enabled = Find(path);
    if (enabled == nullptr || enabled->boolean == (compute == dtype)) return;
    AddFault(
        enabled, path,
        fmt::format("is {}, but shoal.compute_dtype{} is {}", BoolText(enabled->boolean),
                    InLine(checked_, Find("shoal.compute_dtype")->position), DTypeName(compute)));
  }

  void BuildMasterDType() {
    const bool is_double = config_.compute_dtype == DType::kFloat64;
    Picked<DType> master{is_double ? DType::kFloat64 : DType::kFloat32, Origin::kDerived, 0};
    if (const auto named = FindDType("shoal.master_dtype")) {
      master = *named;
      const bool fits =
          master.value == DType::kFloat64 || (master.value == DType::kFloat32 && !is_double);
      if (!fits) {
        AddFault(Find("shoal.master_dtype"), "shoal.master_dtype",
                 fmt::format("must be {} for compute dtype {}, found {}",
                             is_double ? "float64" : "float32 or float64",
                             DTypeName(config_.compute_dtype), DTypeName(master.value)));
      }
    }
    config_.master_dtype = master.value;
    Record("shoal.master_dtype", DTypeText(master.value), master);
  }

  // A dtype with a DeepSpeed name and a Shoal name.
  std::optional<Picked<DType>> FindEither(std::string_view deepspeed, std::string_view shoal) {
    const auto a = FindDType(deepspeed);
    const auto b = FindDType(shoal);
    RequireEqual(deepspeed, shoal, a && b && a->value == b->value);
    return b ? b : a;
  }

  void BuildReduceDType() {
    const auto named = FindEither("communication_data_type", "shoal.reduce_dtype");
    if (named) config_.reduce_dtype = named->value;
    const Picked<DType> shown =
        named.value_or(Picked<DType>{config_.compute_dtype, Origin::kDerived, 0});
    Record("shoal.reduce_dtype", DTypeText(shown.value), shown);
  }

  void BuildAccumulateDType() {
    const auto named = FindEither("data_types.grad_accum_dtype", "shoal.accumulate_dtype");
    const DType derived = IsShoal() ? config_.master_dtype : config_.compute_dtype;
    const Picked<DType> picked = named.value_or(Picked<DType>{derived, Origin::kDerived, 0});
    config_.accumulate_dtype = picked.value;
    Record("shoal.accumulate_dtype", DTypeText(picked.value), picked);
    if (DTypeBytes(picked.value) == 2) {
      AddNote("data_types.grad_accum_dtype", picked.line,
              fmt::format("gradients are accumulated in {}{}", DTypeName(picked.value),
                          named ? "" : ", DeepSpeed's default"));
    }
  }

  void BuildFp16() {
    Fp16Config& fp16 = config_.fp16;
    fp16.enabled = config_.compute_dtype == DType::kFloat16;
    fp16.loss_scale = TakeFloat("fp16.loss_scale");
    fp16.initial_scale_power = TakeInt("fp16.initial_scale_power");
    fp16.loss_scale_window = TakeInt("fp16.loss_scale_window");
    fp16.hysteresis = TakeInt("fp16.hysteresis");
    fp16.consecutive_hysteresis = TakeBool("fp16.consecutive_hysteresis");
    fp16.min_loss_scale = TakeFloat("fp16.min_loss_scale");
  }

  // --- everything without rules of its own ---

  void BuildGeneral() {
    config_.gradient_clipping = TakeFloat("gradient_clipping");
    if (!IsShoal() && Find("gradient_clipping") == nullptr) {
      AddNote("gradient_clipping", 0,
              "not given: clipped at 1.0, DeepSpeed's default (0 in its older releases)");
    }
    config_.steps_per_print = TakeOptionalInt("steps_per_print");
    config_.reduce_group = TakeChoice("shoal.reduce_group", "separate") ? ReduceGroup::kSeparate
                                                                        : ReduceGroup::kShared;
    config_.accumulate =
        TakeChoice("shoal.accumulate", "reduced") ? Accumulate::kReduced : Accumulate::kUnreduced;
    config_.deterministic = TakeBool("shoal.deterministic");
    config_.non_finite =
        TakeChoice("shoal.non_finite", "skip") ? NonFinite::kSkip : NonFinite::kRaise;
    config_.timeout_s = TakeFloat("shoal.timeout_s");
    config_.debug = TakeBool("shoal.debug");
  }

  void BuildMesh() {
    MeshConfig& mesh = config_.mesh;
    mesh.pp = TakeInt("shoal.mesh.pp");
    BuildDataAxis();
    mesh.ep = TakeInt("shoal.mesh.ep");
    mesh.sp = TakeInt(NameOf("sequence_parallel_size", "shoal.mesh.sp"));
    mesh.tp = TakeInt("shoal.mesh.tp");
  }

  // Which of two names to read: Shoal's unless only DeepSpeed's is given.
  std::string_view NameOf(std::string_view deepspeed, std::string_view shoal) {
    const Node* a = Find(deepspeed);
    const Node* b = Find(shoal);
    RequireEqual(deepspeed, shoal, a != nullptr && b != nullptr && SameValue(*a, *b));
    return b == nullptr && a != nullptr ? deepspeed : shoal;
  }

  void BuildDataAxis() {
    const std::string_view path = NameOf("data_parallel_size", "shoal.mesh.dp");
    const Picked<Node> picked = Pick(path);
    const Node& node = picked.value;
    if (node.kind == Kind::kNumber) config_.mesh.dp = ToInt(node);
    if (node.kind == Kind::kArray) {
      config_.mesh.dp_replicate = ToInt(node.items[0]);
      config_.mesh.dp = ToInt(node.items[1]);
    }
    Record(path, ToJson(node), picked);
  }

  // --- optimizer and schedule ---

  void BuildOptimizer() {
    const Node* section = Find("optimizer");
    if (section == nullptr) return;
    const Node* type = RequireType("optimizer", *section);
    if (type == nullptr) return;
    OptimizerConfig& optimizer = config_.optimizer;
    const Picked<int> from_file{0, Origin::kFile, LineOf(type)};
    if (EqualsIgnoreCase(type->text, "SGD")) {
      optimizer.kind = OptimizerKind::kSgd;
      Record("optimizer.type", Quote("SGD"), from_file);
      BuildSgd();
      return;
    }
    const bool is_adamw = EqualsIgnoreCase(type->text, "AdamW");
    optimizer.kind = is_adamw ? OptimizerKind::kAdamW : OptimizerKind::kAdam;
    Record("optimizer.type", Quote(is_adamw ? "AdamW" : "Adam"), from_file);
    BuildAdam(is_adamw);
  }

  // The section's type if it is valid. A missing one is reported here, a wrong one was before.
  const Node* RequireType(std::string_view section, const Node& node) {
    if (node.Find("type") == nullptr) {
      AddFault(&node, section, "has no \"type\"");
    }
    return Find(JoinPath(section, "type"));
  }

  void BuildAdam(bool is_adamw) {
    OptimizerConfig& optimizer = config_.optimizer;
    optimizer.lr = TakeFloat("optimizer.params(Adam).lr");
    const Picked<Node> betas = Pick("optimizer.params(Adam).betas");
    optimizer.beta1 = betas.value.items[0].number;
    optimizer.beta2 = betas.value.items[1].number;
    Record("optimizer.params(Adam).betas", ToJson(betas.value), betas);
    optimizer.eps = TakeFloat("optimizer.params(Adam).eps");
    optimizer.weight_decay = TakeFloat("optimizer.params(Adam).weight_decay");
    optimizer.bias_correction = TakeBool("optimizer.params(Adam).bias_correction");
    const Node* mode = Find("optimizer.params(Adam).adam_w_mode");
    if (is_adamw) {
      optimizer.decoupled_weight_decay = true;
      Record("optimizer.params.adam_w_mode", "true", Picked<bool>{true, Origin::kDerived, 0});
      if (mode != nullptr && !mode->boolean) {
        AddFault(mode, "optimizer.params.adam_w_mode",
                 "AdamW always decouples its decay, found false; use the type Adam");
      }
      return;
    }
    optimizer.decoupled_weight_decay = TakeBool("optimizer.params(Adam).adam_w_mode");
    if (optimizer.decoupled_weight_decay && mode == nullptr && optimizer.weight_decay > 0) {
      AddNote(
          "optimizer.type", LineOf(Find("optimizer.type")),
          "Adam decouples its decay (as AdamW), DeepSpeed's default; adam_w_mode=false does not");
    }
  }

  void BuildSgd() {
    OptimizerConfig& optimizer = config_.optimizer;
    optimizer.lr = TakeFloat("optimizer.params(SGD).lr");
    optimizer.momentum = TakeFloat("optimizer.params(SGD).momentum");
    optimizer.dampening = TakeFloat("optimizer.params(SGD).dampening");
    optimizer.weight_decay = TakeFloat("optimizer.params(SGD).weight_decay");
    optimizer.nesterov = TakeBool("optimizer.params(SGD).nesterov");
    if (optimizer.nesterov && (optimizer.momentum <= 0 || optimizer.dampening != 0)) {
      AddFault(Find("optimizer.params(SGD).nesterov"), "optimizer.params.nesterov",
               fmt::format("needs momentum > 0 and dampening 0, found momentum {} and dampening {}",
                           optimizer.momentum, optimizer.dampening));
    }
  }

  void BuildScheduler() {
    const Node* section = Find("scheduler");
    if (section == nullptr) return;
    const Node* type = RequireType("scheduler", *section);
    if (type == nullptr) return;
    SchedulerConfig& scheduler = config_.scheduler;
    const Picked<int> from_file{0, Origin::kFile, LineOf(type)};
    std::string_view name = "WarmupLR";
    scheduler.kind = SchedulerKind::kWarmupLR;
    if (EqualsIgnoreCase(type->text, "WarmupDecayLR")) {
      name = "WarmupDecayLR";
      scheduler.kind = SchedulerKind::kWarmupDecayLR;
    } else if (EqualsIgnoreCase(type->text, "WarmupCosineLR")) {
      name = "WarmupCosineLR";
      scheduler.kind = SchedulerKind::kWarmupCosineLR;
    }
    Record("scheduler.type", Quote(name), from_file);
    const std::string params = fmt::format("scheduler.params({})", name);
    scheduler.warmup_num_steps = TakeInt(params + ".warmup_num_steps");
    scheduler.warmup_log = TakeChoice(params + ".warmup_type", "log");
    if (scheduler.kind != SchedulerKind::kWarmupLR) BuildTotalSteps(*section, params);
    if (scheduler.kind == SchedulerKind::kWarmupCosineLR) {
      scheduler.warmup_min_ratio = TakeFloat(params + ".warmup_min_ratio");
      scheduler.cos_min_ratio = TakeFloat(params + ".cos_min_ratio");
    } else {
      BuildWarmupRates(params);
    }
  }

  void BuildTotalSteps(const Node& section, const std::string& params) {
    const std::string path = params + ".total_num_steps";
    if (Find(path) != nullptr) {
      config_.scheduler.total_num_steps = TakeInt(path);
      return;
    }
    const Node* written = section.Find("params");
    const bool is_reported = written != nullptr && written->Find("total_num_steps") != nullptr;
    if (is_reported && written->Find("total_num_steps")->kind != Kind::kNull) return;
    AddFault(&section, path, "is required: the optimizer steps of the whole run");
  }

  void BuildWarmupRates(const std::string& params) {
    SchedulerConfig& scheduler = config_.scheduler;
    scheduler.warmup_min_lr = TakeFloat(params + ".warmup_min_lr");
    const std::string path = params + ".warmup_max_lr";
    const Picked<Node> peak = Pick(path);
    if (peak.value.kind == Kind::kNumber) scheduler.warmup_max_lr = peak.value.number;
    Record(path, ToJson(peak.value), peak);
    if (scheduler.warmup_max_lr && *scheduler.warmup_max_lr < scheduler.warmup_min_lr) {
      AddFault(Find(path), path,
               fmt::format("must be at least warmup_min_lr {}, found {}", scheduler.warmup_min_lr,
                           *scheduler.warmup_max_lr));
    }
  }

  Checked& checked_;
  Config config_;
};

}  // namespace

Config BuildConfig(Checked* checked) { return Builder(checked).Build(); }

}  // namespace shoal::config
