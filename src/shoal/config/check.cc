#include "shoal/config/check_internal.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "shoal/base/dtype.h"
#include "shoal/config/config.h"
#include "shoal/config/json_internal.h"
#include "shoal/config/schema.h"
#include "shoal/config/suggest_internal.h"

namespace shoal::config {
namespace {

// Who replaces the text "auto" in Hugging Face's integrations.
struct AutoFiller {
  std::string_view path;  // without "(type)"
  std::string_view filler;
};
constexpr auto kAutoFillers = std::to_array<AutoFiller>({
    {"train_batch_size", "the product of the batch arguments and the world size"},
    {"train_micro_batch_size_per_gpu", "per_device_train_batch_size"},
    {"gradient_accumulation_steps", "gradient_accumulation_steps"},
    {"gradient_clipping", "max_grad_norm"},
    {"fp16.enabled", "fp16"},
    {"bf16.enabled", "bf16"},
    {"amp.enabled", "fp16 with fp16_backend=apex"},
    {"amp.opt_level", "fp16_opt_level"},
    {"zero_optimization.reduce_bucket_size", "hidden_size squared"},
    {"zero_optimization.stage3_prefetch_bucket_size", "0.9 x hidden_size squared"},
    {"zero_optimization.stage3_param_persistence_threshold", "10 x hidden_size"},
    {"optimizer.params.lr", "learning_rate"},
    {"optimizer.params.betas", "adam_beta1 and adam_beta2"},
    {"optimizer.params.eps", "adam_epsilon"},
    {"optimizer.params.weight_decay", "weight_decay"},
    {"scheduler.params.warmup_min_lr", "0"},
    {"scheduler.params.warmup_max_lr", "learning_rate"},
    {"scheduler.params.warmup_num_steps", "warmup_steps"},
    {"scheduler.params.total_num_steps", "max_steps"},
    {"checkpoint.use_node_local_storage", "save_on_each_node"},
});

// Names that DeepSpeed knows and Shoal does not implement.
constexpr auto kOtherOptimizers = std::to_array<std::string_view>(
    {"Muon", "Lamb", "Adagrad", "Lion", "OneBitAdam", "ZeroOneAdam", "OneBitLamb", "MuAdam",
     "MuAdamW", "MuSGD", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "LBFGS",
     "Rprop", "SparseAdam"});
constexpr auto kOtherSchedulers = std::to_array<std::string_view>({"OneCycle", "LRRangeTest"});

std::vector<std::string_view> Split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t bar = text.find('|');
    parts.push_back(text.substr(0, bar));
    if (bar == std::string_view::npos) return parts;
    text.remove_prefix(bar + 1);
  }
}

std::optional<std::string_view> FindName(std::string_view name,
                                         std::span<const std::string_view> names) {
  for (const std::string_view candidate : names) {
    if (EqualsIgnoreCase(name, candidate)) return candidate;
  }
  return std::nullopt;
}

bool InRange(Range range, double x) {
  switch (range) {
    case Range::kAny:
      return true;
    case Range::kAtLeastZero:
      return x >= 0;
    case Range::kAtLeastOne:
      return x >= 1;
    case Range::kCount:
      return x >= 1 && x <= 2147483647;
    case Range::kAboveZero:
      return x > 0;
    case Range::kBelowOne:
      return x >= 0 && x < 1;
    case Range::kZeroToOne:
      return x >= 0 && x <= 1;
    case Range::kStages:
      return x >= 0 && x <= 3;
    case Range::kScalePower:
      return x >= 0 && x <= 126;
  }
  return false;
}

constexpr double kTwoTo63 = 9223372036854775808.0;

bool IsWhole(const Node& node) {
  return node.kind == Kind::kNumber && node.number == std::floor(node.number) &&
         node.number >= -kTwoTo63 && node.number <= kTwoTo63;
}

bool IsNumber(const Node& node, const KeySpec& spec, bool whole) {
  return node.kind == Kind::kNumber && (!whole || IsWhole(node)) &&
         InRange(spec.range, node.number);
}

bool IsNumberPair(const Node& node, const KeySpec& spec, bool whole) {
  return node.kind == Kind::kArray && node.items.size() == 2 &&
         IsNumber(node.items[0], spec, whole) && IsNumber(node.items[1], spec, whole);
}

bool IsRealDType(const Node& node) {
  if (node.kind != Kind::kString) return false;
  const std::optional<DType> dtype = ParseDType(node.text);
  return dtype.has_value() && IsRealFloat(*dtype);
}

bool HasType(const KeySpec& spec, const Node& node) {
  switch (spec.type) {
    case ValueType::kSection:
    case ValueType::kSwitch:
      return node.kind == Kind::kObject;
    case ValueType::kBool:
      return node.kind == Kind::kBool;
    case ValueType::kInt:
      return IsNumber(node, spec, true);
    case ValueType::kFloat:
      return IsNumber(node, spec, false);
    case ValueType::kString:
      return node.kind == Kind::kString;
    case ValueType::kDType:
      return IsRealDType(node);
    case ValueType::kChoice:
      if (node.kind != Kind::kString) return false;
      return spec.action == Action::kDefaultOnly || FindName(node.text, Split(spec.choices));
    case ValueType::kPair:
      return IsNumberPair(node, spec, false);
    case ValueType::kAxis:
      return IsNumber(node, spec, true) || IsNumberPair(node, spec, true);
    case ValueType::kStage:
      return node.kind == Kind::kObject || node.kind == Kind::kBool;
    case ValueType::kAny:
      return true;
  }
  return false;
}

// What would make a wrong value right, where that is plain.
std::string Remedy(const KeySpec& spec, const Node& node) {
  if (node.kind == Kind::kString) {
    const bool looks_bool =
        EqualsIgnoreCase(node.text, "true") || EqualsIgnoreCase(node.text, "false");
    double number = 0.0;
    const char* end = node.text.data() + node.text.size();
    const auto parsed = std::from_chars(node.text.data(), end, number);
    const bool looks_number = parsed.ec == std::errc() && parsed.ptr == end;
    const bool wants_number = spec.type == ValueType::kInt || spec.type == ValueType::kFloat;
    if ((spec.type == ValueType::kBool && looks_bool) || (wants_number && looks_number)) {
      return "; remove the quotes";
    }
    if (spec.type == ValueType::kChoice) {
      const std::string_view near = Nearest(node.text, Split(spec.choices));
      if (!near.empty()) return fmt::format("; did you mean \"{}\"?", near);
    }
  }
  if (spec.type == ValueType::kInt && node.kind == Kind::kNumber && !IsWhole(node) &&
      std::abs(node.number) < 1e15) {
    return fmt::format("; the nearest is {}", std::llround(node.number));
  }
  return "";
}

std::string_view Article(ValueType type) {
  switch (type) {
    case ValueType::kBool:
    case ValueType::kChoice:
    case ValueType::kAny:
      return "";
    case ValueType::kSection:
    case ValueType::kSwitch:
    case ValueType::kStage:
      return "an ";
    default:
      return "a ";
  }
}

bool IsAuto(const Node& node) { return node.kind == Kind::kString && node.text == "auto"; }

// `text` is JSON of the table itself.
Node TableValue(std::string_view text) {
  const Document document = ReadJson(fmt::format("{{\"value\": {}}}", text));
  const Node* value = document.root.Find("value");
  return value == nullptr ? Node{} : *value;
}

bool EqualsDefault(const KeySpec& spec, const Node& node) {
  if (node.kind == Kind::kNull) return true;
  if (!spec.fallback.empty() && SameValue(TableValue(spec.fallback), node)) return true;
  if (node.kind != Kind::kString && node.kind != Kind::kNumber) return false;
  return !spec.choices.empty() && FindName(node.text, Split(spec.choices)).has_value();
}

// {"enabled": false} and {} are off.
bool IsOff(const Node& node) {
  const Node* enabled = node.Find("enabled");
  if (enabled == nullptr) return node.members.empty();
  return enabled->kind == Kind::kBool && !enabled->boolean;
}

class Checker {
 public:
  Checker(const Node& root, Places places) {
    checked_.places = places;
    const Node* shoal = root.Find("shoal");
    checked_.dialect =
        shoal != nullptr && shoal->kind == Kind::kObject ? Dialect::kShoal : Dialect::kDeepSpeed;
    CheckSection("", root);
  }

  Checked Take() && { return std::move(checked_); }

 private:
  bool IsFull() const { return static_cast<int64_t>(checked_.faults.size()) >= kMaxFaults; }

  void AddFault(Position position, std::string path, std::string message) {
    checked_.faults.push_back({position, std::move(path), std::move(message), false});
  }
  void AddUnsupported(Position position, std::string path, std::string message) {
    checked_.faults.push_back({position, std::move(path), std::move(message), true});
  }
  void AddNote(const KeySpec& spec, const Node& node, std::string_view text) {
    checked_.notes.push_back(
        {DisplayPath(spec.path), ShownLine(checked_, node.position), std::string(text)});
  }

  // Checks the keys of `object`, which is the section `section` of the table ("" = top level).
  void CheckSection(std::string_view section, const Node& object) {
    std::map<std::string, const Member*, std::less<>> spellings;  // by the row's path
    for (const Member& member : object.members) {
      if (IsFull()) return;
      if (member.key.starts_with('_')) continue;
      const std::string path = JoinPath(section, member.key);
      if (path == "optimizer.params" || path == "scheduler.params") {
        CheckParams(section, object, member.value);
        continue;
      }
      const KeySpec* spec = FindSpelling(member.key, path);
      if (spec == nullptr) {
        AddFault(member.position, JoinPath(DisplayPath(section), Printable(member.key)),
                 fmt::format("unknown key{}", SuggestKey(section, member.key)));
        continue;
      }
      const auto [other, is_first] = spellings.emplace(spec->path, &member);
      if (!is_first) {
        CheckSecondSpelling(*other->second, member, *spec);
        continue;
      }
      if (path != spec->path) {
        AddNote(*spec, member.value, fmt::format("written as its other name \"{}\"", member.key));
      }
      CheckValue(*spec, member.value);
    }
  }

  // The row of `key` at `path`, or null. Rows' own notation is no key: "zero_optimization.stage" in
  // one text.
  static const KeySpec* FindSpelling(std::string_view key, std::string_view path) {
    if (key.find_first_of(".(") != std::string_view::npos) return nullptr;
    for (const KeyAlias& alias : Aliases()) {
      if (alias.path == path) return FindKey(alias.target);
    }
    return FindKey(path);
  }

  void CheckSecondSpelling(const Member& first, const Member& second, const KeySpec& spec) {
    if (SameValue(first.value, second.value)) {
      AddNote(spec, second.value,
              fmt::format("\"{}\" and \"{}\" are the same key and agree", first.key, second.key));
      return;
    }
    AddFault(second.position, DisplayPath(spec.path),
             fmt::format("\"{}\" is the same key as \"{}\"{}, with another value; "
                         "keep one of them",
                         second.key, first.key, InLine(checked_, first.position)));
  }

  // `params` belongs to `object`, the optimizer or scheduler section. Its rows depend on the type.
  void CheckParams(std::string_view section, const Node& object, const Node& params) {
    const KeySpec* type_spec = FindKey(JoinPath(section, "type"));
    const Node* type = object.Find("type");
    if (type == nullptr || type_spec == nullptr || !HasType(*type_spec, *type)) return;
    std::string_view family = *FindName(type->text, Split(type_spec->choices));
    if (family == "AdamW") family = "Adam";
    const KeySpec* spec = FindKey(fmt::format("{}.params({})", section, family));
    if (spec != nullptr) CheckValue(*spec, params);
  }

  void CheckValue(const KeySpec& spec, const Node& node) {
    const std::string path = DisplayPath(spec.path);
    if (node.kind == Kind::kBad) return;
    if (spec.action == Action::kRefused) {
      AddUnsupported(node.position, path, fmt::format("not supported: {}", spec.note));
      return;
    }
    if (spec.action == Action::kDefaultOnly && spec.type != ValueType::kSwitch &&
        EqualsDefault(spec, node)) {
      return;
    }
    if (IsAuto(node)) {
      AddFault(node.position, path, AutoMessage(path, spec));
      return;
    }
    if (node.kind == Kind::kNull && IsNullable(spec)) return;
    if (std::string fault = CheckName(spec, node); !fault.empty()) {
      AddUnsupported(node.position, path, std::move(fault));
      return;
    }
    if (std::string fault = TypeFault(spec, node); !fault.empty()) {
      AddFault(node.position, path, std::move(fault));
      return;
    }
    Act(spec, node);
  }

  bool IsNullable(const KeySpec& spec) const {
    const bool is_shoal = checked_.dialect == Dialect::kShoal && !spec.shoal.empty();
    const std::string_view fallback = is_shoal ? spec.shoal : spec.fallback;
    return fallback.empty() || fallback == "null" || spec.action == Action::kIgnored;
  }

  static std::string AutoMessage(std::string_view path, const KeySpec& spec) {
    for (const AutoFiller& filler : kAutoFillers) {
      if (filler.path != path) continue;
      return fmt::format(
          "is still \"auto\"; Transformers' Trainer fills it with {}; without it "
          "write a value ({})",
          filler.filler, TypeInWords(spec));
    }
    if (spec.fallback.empty()) {
      return fmt::format("is still \"auto\"; write a value ({})", TypeInWords(spec));
    }
    return fmt::format(
        "is still \"auto\" and nothing fills it; write a value ({}) or remove the "
        "key (default {})",
        TypeInWords(spec), spec.fallback);
  }

  // Optimizers and schedules that exist elsewhere.
  static std::string CheckName(const KeySpec& spec, const Node& node) {
    if (node.kind != Kind::kString) return "";
    if (spec.path == "optimizer.type" && FindName(node.text, kOtherOptimizers)) {
      return fmt::format(
          "{} is not implemented; there are AdamW, Adam and SGD, and the engine "
          "takes any torch.optim class from the caller",
          node.text);
    }
    if (spec.path == "scheduler.type" && FindName(node.text, kOtherSchedulers)) {
      return fmt::format(
          "{} is not implemented; there are WarmupLR, WarmupDecayLR and "
          "WarmupCosineLR",
          node.text);
    }
    return "";
  }

  // What a valid value leads to.
  void Act(const KeySpec& spec, const Node& node) {
    switch (spec.action) {
      case Action::kRead:
        checked_.values.emplace(spec.path, &node);
        if (node.kind == Kind::kObject) CheckSection(spec.path, node);
        return;
      case Action::kHint:
        if (!EqualsDefault(spec, node)) AddNote(spec, node, spec.note);
        return;
      case Action::kIgnored:
        AddNote(spec, node, spec.note);
        return;
      case Action::kDefaultOnly:
        RefuseUnlessOff(spec, node);
        return;
      case Action::kRefused:
        return;  // CheckValue reported it
    }
  }

  void RefuseUnlessOff(const KeySpec& spec, const Node& node) {
    if (spec.type == ValueType::kSwitch) {
      if (IsOff(node)) return;
      AddUnsupported(node.position, std::string(spec.path),
                     fmt::format("not supported: {}; remove the section or set its \"enabled\" to "
                                 "false",
                                 spec.note));
      return;
    }
    AddUnsupported(node.position, DisplayPath(spec.path),
                   fmt::format("found {}, only {} is supported: {}", FoundInWords(node),
                               spec.fallback, spec.note));
  }

  Checked checked_;
};

}  // namespace

Checked CheckDocument(const Node& root, Places places) { return Checker(root, places).Take(); }

std::string InLine(const Checked& checked, const Position& position) {
  return checked.places == Places::kHide ? "" : fmt::format(" in line {}", position.line);
}

int64_t ShownLine(const Checked& checked, const Position& position) {
  return checked.places == Places::kHide ? 0 : position.line;
}

std::string TypeFault(const KeySpec& spec, const Node& node) {
  if (HasType(spec, node)) return "";
  return fmt::format("must be {}{}, found {}{}", Article(spec.type), TypeInWords(spec),
                     FoundInWords(node), Remedy(spec, node));
}

int64_t ToInt(const Node& node) {
  int64_t exact = 0;
  const char* end = node.text.data() + node.text.size();
  const auto parsed = std::from_chars(node.text.data(), end, exact);
  if (parsed.ec == std::errc() && parsed.ptr == end) return exact;
  if (node.number >= kTwoTo63) return INT64_MAX;
  return static_cast<int64_t>(node.number);
}

std::string FoundInWords(const Node& node) {
  switch (node.kind) {
    case Kind::kNull:
    case Kind::kBad:
      return "null";
    case Kind::kBool:
      return node.boolean ? "true" : "false";
    case Kind::kNumber:
      return Printable(node.text);
    case Kind::kString:
      return fmt::format("the text \"{}\"", Printable(node.text));
    case Kind::kArray: {
      const std::string text = ToJson(node);
      return text.size() <= 40 ? text : std::string("a list");
    }
    case Kind::kObject:
      return "an object";
  }
  return "null";
}

}  // namespace shoal::config
