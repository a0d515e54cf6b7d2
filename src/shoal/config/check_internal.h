// Checks a document against the schema: names, types, ranges, "auto", refused keys, spellings given
// twice. Rules that join several keys are in build.cc. Not installed.
//
// Thread-safety: pure functions and values.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/config/config.h"
#include "shoal/config/json_internal.h"
#include "shoal/config/schema.h"

namespace shoal::config {

inline constexpr int64_t kMaxFaults = 100;

// What is left of a document after its check. Nodes belong to the document.
struct Checked {
  Dialect dialect = Dialect::kDeepSpeed;
  Places places = Places::kShow;
  // Valid, non-null values of rows with Action::kRead (and sections), by the row's path.
  std::map<std::string, const Node*, std::less<>> values;
  std::vector<Fault> faults;
  std::vector<Note> notes;
};

Checked CheckDocument(const Node& root, Places places);

// " in line 3", or nothing when places are hidden.
std::string InLine(const Checked& checked, const Position& position);

// The line for a Note or an Entry: 0 when places are hidden.
int64_t ShownLine(const Checked& checked, const Position& position);

// Why `node` is no value for `spec`, or empty if it is one.
std::string TypeFault(const KeySpec& spec, const Node& node);

// The whole number that a number node stands for. @pre TypeFault found none for kInt.
int64_t ToInt(const Node& node);

// "the text "abc"", "true", "1.5", "a list".
std::string FoundInWords(const Node& node);

}  // namespace shoal::config
