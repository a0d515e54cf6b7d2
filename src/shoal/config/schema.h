// The schema as data: every key that Shoal knows in a configuration, in one constexpr table. The
// checker, docs/config.md (checked by a test) and Explain() all read it; a later feature changes
// its row, nothing else.
//
// Paths are those of a document: "zero_optimization.stage". Parameters of optimizers and schedulers
// depend on the type and are written "optimizer.params(Adam).lr".
//
// Thread-safety: immutable data and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shoal/base/status.h"

namespace shoal::config {

// What a value must be. The text "auto" is never accepted, except where a row says so.
enum class ValueType : int8_t {
  kSection,  // an object whose keys are rows of their own
  kSwitch,   // an object that must say {"enabled": false}; its other keys are not looked at
  kBool,
  kInt,     // a whole number; 5e8 and 1.259e+03 pass
  kFloat,   // a finite number
  kString,  // any text
  kDType,   // "bf16", "float32", ... (ParseDType) of a real floating type
  kChoice,  // one of the texts in `choices`
  kPair,    // [number, number]
  kAxis,    // a whole number or [replicate, shard]
  kStage,   // an object as kSection, or the old true / false
  kAny,     // not looked at
};

// Which numbers pass (kInt, kFloat, each of kPair and kAxis).
enum class Range : int8_t {
  kAny,
  kAtLeastZero,  // >= 0
  kAtLeastOne,   // >= 1
  kCount,        // 1 to 2^31 - 1: products of two fit int64_t
  kAboveZero,    // > 0
  kBelowOne,     // >= 0 and < 1
  kZeroToOne,    // >= 0 and <= 1
  kStages,       // 0, 1, 2, 3
  kScalePower,   // 0 to 126: 2^126 is finite in float32
};

// What Shoal does with a value.
enum class Action : int8_t {
  kRead,         // It has its documented effect.
  kHint,         // Accepted without effect on results; a note says why, unless it is the default.
  kDefaultOnly,  // `fallback`, null and each of `choices` pass; anything else is Unsupported:
                 // `note`.
  kIgnored,      // Belongs to something that is off: its type is checked, it has no effect.
  kRefused,      // Unsupported whatever the value; `note` says what to do instead.
};

// One key.
struct KeySpec {
  std::string_view path = {};
  ValueType type = ValueType::kAny;
  Action action = Action::kRead;
  std::string_view fallback =
      {};  // value when absent, as JSON text, in the DeepSpeed dialect; "" = none
  std::string_view note =
      {};  // effect, reason of refusal or replacement; one sentence without its full stop
  Range range = Range::kAny;
  std::string_view choices = {};  // "mean|sum"; texts are matched without case
  std::string_view shoal = {};    // `fallback` in Shoal's dialect where it differs

  constexpr KeySpec In(Range value) const {
    KeySpec copy = *this;
    copy.range = value;
    return copy;
  }
  constexpr KeySpec OneOf(std::string_view value) const {
    KeySpec copy = *this;
    copy.choices = value;
    return copy;
  }
  constexpr KeySpec Shoal(std::string_view value) const {
    KeySpec copy = *this;
    copy.shoal = value;
    return copy;
  }
};

// Another spelling of a key. Both spellings together are an error unless their values are equal.
struct KeyAlias {
  std::string_view path;    // the other spelling: "bfloat16"
  std::string_view target;  // the row: "bf16"
};

// All rows; a section comes before its keys.
std::span<const KeySpec> Schema();
std::span<const KeyAlias> Aliases();

// The row of `path`, or null. Aliases are not followed.
const KeySpec* FindKey(std::string_view path);

// The type in words: "whole number", "one of mean, sum", "number >= 0".
std::string TypeInWords(const KeySpec& spec);

// One paragraph about a key: type, default in both dialects, effect. Follows aliases; a parameter
// may be named without its type ("optimizer.params.lr"). NotFound (operation "config") names the
// nearest key.
Result<std::string> Explain(std::string_view path);

}  // namespace shoal::config
