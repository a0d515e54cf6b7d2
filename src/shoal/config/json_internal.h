// A small JSON reader that keeps the place of every key and value. Not installed.
//
// Why not nlohmann-json: docs/design/config-json.md (3.11 has no places for valid values, stops at
// the first fault, refuses trailing commas).
//
// Accepts JSON plus // and /* */ comments, trailing commas and a leading byte order mark. Mistakes
// whose intention is clear (a bare word such as inf, a duplicate key, a missing comma) are recorded
// and reading goes on, so that one report can list them together with what the schema finds; others
// end the reading.
//
// Thread-safety: pure functions and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::config {

inline constexpr int64_t kMaxDocumentBytes = int64_t{1} << 20;
inline constexpr int kMaxDepth = 64;

// Place in the document; lines and columns (in bytes) start at 1.
struct Position {
  int64_t line = 1;
  int64_t column = 1;
};

// One fault of a document.
struct Fault {
  Position position;
  std::string path;  // "zero_optimization.stage"; empty for the document as a whole
  std::string message;
  bool unsupported = false;  // legal, but not implemented (else: wrong)
};

enum class Kind : int8_t {
  kNull,
  kBool,
  kNumber,
  kString,
  kArray,
  kObject,
  kBad,  // already reported; readers skip it
};

struct Member;

// One value. `text` is the decoded text of a string, or a number as written.
struct Node {
  Kind kind = Kind::kNull;
  Position position;
  bool boolean = false;
  double number = 0.0;  // finite
  std::string text;
  std::vector<Node> items;      // of an array
  std::vector<Member> members;  // of an object, in the document's order, keys unique

  // The member named `key`, or null.
  const Node* Find(std::string_view key) const;
};

struct Member {
  std::string key;
  Position position;  // of the key
  Node value;
};

// What came of a document. `complete` is false when reading stopped early; `root` is then not to be
// used.
struct Document {
  Node root;
  bool complete = false;
  std::vector<Fault> faults;
};

// Reads `text`. Never fails otherwise than through `faults`.
Document ReadJson(std::string_view text);

// Same value: numbers by number, objects regardless of order.
bool SameValue(const Node& a, const Node& b);

// Compact JSON text of a value.
std::string ToJson(const Node& node);

// `text` fit for one line of a message: control characters escaped, cut to `max_bytes` at a
// character's end.
std::string Printable(std::string_view text, size_t max_bytes = 60);

// Appends `key` to `path` with a dot between, unless `path` is empty.
std::string JoinPath(std::string_view path, std::string_view key);

}  // namespace shoal::config
