#include "shoal/config/schema.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "shoal/base/status.h"
#include "shoal/config/json_internal.h"
#include "shoal/config/schema_main_internal.h"
#include "shoal/config/schema_other_internal.h"
#include "shoal/config/suggest_internal.h"

namespace shoal::config {
namespace {

constexpr size_t kNumRows = rows::kMainRows.size() + rows::kOtherRows.size();

constexpr std::array<KeySpec, kNumRows> JoinRows() {
  std::array<KeySpec, kNumRows> all{};
  auto end = std::copy(rows::kMainRows.begin(), rows::kMainRows.end(), all.begin());
  std::copy(rows::kOtherRows.begin(), rows::kOtherRows.end(), end);
  return all;
}

constexpr std::array<KeySpec, kNumRows> kRows = JoinRows();

constexpr bool PathsAreUnique() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    for (size_t j = i + 1; j < kRows.size(); ++j) {
      if (kRows[i].path == kRows[j].path) return false;
    }
  }
  return true;
}
static_assert(PathsAreUnique());

std::string_view TypeName(const KeySpec& spec) {
  switch (spec.type) {
    case ValueType::kSection:
    case ValueType::kSwitch:
      return "object";
    case ValueType::kBool:
      return "true or false";
    case ValueType::kInt:
      return "whole number";
    case ValueType::kFloat:
      return "number";
    case ValueType::kString:
      return "text";
    case ValueType::kDType:
      return "floating dtype (fp32, bf16, fp16, fp64)";
    case ValueType::kChoice:
      return "one of ";
    case ValueType::kPair:
      return "list of two numbers";
    case ValueType::kAxis:
      return "whole number or [replicate, shard]";
    case ValueType::kStage:
      return "object, true or false";
    case ValueType::kAny:
      return "any value";
  }
  return "any value";
}

std::string_view RangeName(Range range) {
  switch (range) {
    case Range::kAny:
      return "";
    case Range::kAtLeastZero:
      return " >= 0";
    case Range::kAtLeastOne:
      return " >= 1";
    case Range::kCount:
      return " from 1 to 2147483647";
    case Range::kAboveZero:
      return " > 0";
    case Range::kBelowOne:
      return " >= 0 and < 1";
    case Range::kZeroToOne:
      return " from 0 to 1";
    case Range::kStages:
      return " from 0 to 3";
    case Range::kScalePower:
      return " from 0 to 126";
  }
  return "";
}

std::string_view ActionInWords(Action action) {
  switch (action) {
    case Action::kRead:
      return "";
    case Action::kHint:
      return "Accepted: ";
    case Action::kDefaultOnly:
      return "Only its default is supported: ";
    case Action::kIgnored:
      return "Not looked at: ";
    case Action::kRefused:
      return "Refused: ";
  }
  return "";
}

std::string ExplainRow(const KeySpec& row) {
  std::string text = fmt::format("{} ({}", row.path, TypeInWords(row));
  const std::string_view shoal = row.shoal.empty() ? row.fallback : row.shoal;
  if (!row.fallback.empty() && shoal == row.fallback) {
    text += fmt::format("; default {}", row.fallback);
  } else if (!row.fallback.empty()) {
    text += fmt::format("; default {} for DeepSpeed, {} for Shoal", row.fallback, shoal);
  }
  return text + fmt::format("): {}{}.", ActionInWords(row.action), row.note);
}

}  // namespace

std::span<const KeySpec> Schema() { return kRows; }

std::span<const KeyAlias> Aliases() { return rows::kAliasRows; }

const KeySpec* FindKey(std::string_view path) {
  const auto row = std::find_if(kRows.begin(), kRows.end(),
                                [path](const KeySpec& spec) { return spec.path == path; });
  return row == kRows.end() ? nullptr : &*row;
}

std::string TypeInWords(const KeySpec& spec) {
  std::string words(TypeName(spec));
  words += RangeName(spec.range);
  if (spec.type != ValueType::kChoice) return words;
  for (const char c : spec.choices) {
    if (c == '|') {
      words += ", ";
    } else {
      words += c;
    }
  }
  return words;
}

Result<std::string> Explain(std::string_view path) {
  std::string_view target = path;
  for (const KeyAlias& alias : Aliases()) {
    if (alias.path == path) target = alias.target;
  }
  std::string text;
  std::vector<std::string_view> paths;
  for (const KeySpec& row : kRows) {
    paths.push_back(row.path);
    if (row.path != target && DisplayPath(row.path) != target) continue;
    if (!text.empty()) text += '\n';
    text += ExplainRow(row);
  }
  if (!text.empty()) return text;
  const std::string_view near = Nearest(path, paths);
  return Status::NotFound(
      "config", fmt::format("no key \"{}\"{}", Printable(path),
                            near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near)));
}

}  // namespace shoal::config
