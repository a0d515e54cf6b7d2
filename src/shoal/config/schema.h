// The schema as data: every key that Shoal knows in a configuration, in one constexpr table. The
// checker, the documentation (docs/config.md, checked by a test) and Explain() all read it; a later
// feature changes its row's `action`, nothing else.
//
// Thread-safety: immutable data and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shoal/base/status.h"

namespace shoal::config {

// What a value must be. Text "auto" is never accepted unless the row lists it as a choice.
enum class ValueType : int8_t {
  kSection,  // an object whose keys are rows of their own
  kBool,
  kInt,     // a whole number; 5e8 and 1.259e+03 pass
  kFloat,   // a finite number
  kString,  // any text
  kDType,   // "bf16", "float32", ... (ParseDType)
  kChoice,  // one of the texts in `choices`
  kPair,    // [number, number]
  kAxis,    // a whole number or [replicate, shard]
  kStage,   // zero_optimization: an object, or the old true / false
  kAny,     // not looked at
};

// What Shoal does with a value.
enum class Action : int8_t {
  kRead,     // It has its documented effect.
  kHint,     // Accepted without effect on results; a note says why.
  kDefault,  // Only the no-op value (`fallback`, or null) is accepted; anything else is
             // Unsupported.
  kIgnored,  // Part of a section that is off: checked for its type, without effect.
  kRefused,  // No value is accepted; `note` says what to do instead.
};

// One key.
struct KeySpec {
  std::string_view path;  // "zero_optimization.stage"
  ValueType type;
  Action action;
  std::string_view
      fallback;  // the value when the key is absent, as JSON text, DeepSpeed dialect; "" = none
  std::string_view shoal;    // the same in Shoal's dialect; "" = as `fallback`
  std::string_view choices;  // kChoice: "mean|sum", matched without case
  std::string_view
      note;  // effect, or reason of refusal, or replacement; one sentence without full stop
};

// Another spelling of a key. Both spellings together are an error unless the values are equal.
struct KeyAlias {
  std::string_view path;    // the spelling that is read, e.g. "bfloat16"
  std::string_view target;  // the row, e.g. "bf16"
};

// All rows, sections before their keys.
std::span<const KeySpec> Schema();
std::span<const KeyAlias> Aliases();

// The row of `path` (aliases are followed), or null.
const KeySpec* FindKey(std::string_view path);

// One paragraph about a key: type, defaults in both dialects, effect. NotFound names the nearest
// keys.
Result<std::string> Explain(std::string_view path);

// The type in words: "whole number", "one of mean, sum".
std::string TypeInWords(const KeySpec& spec);

}  // namespace shoal::config
