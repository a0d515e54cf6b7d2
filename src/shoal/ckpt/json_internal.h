// Strict JSON for files that anyone may have written: nothing here throws, nesting is bounded and a
// name that appears twice is refused.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/status.h"

namespace shoal::ckpt {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// Corruption, with `where` and the byte, for malformed text, nesting beyond `max_depth` and
// duplicate names.
Result<Json> ParseJson(std::string_view text, int64_t max_depth, std::string_view where);

// InvalidArgument if a string in it is not UTF-8.
Result<std::string> DumpJson(const OrderedJson& value);

// 8 lower-case hexadecimal digits.
std::string HexOf(uint32_t value);

// Reads the members of one JSON object and remembers the first fault; after it, values are empty.
// Borrows the object.
class Fields {
 public:
  // `where` says in messages which object this is; `known` are the members that it may have.
  Fields(const Json& object, std::string_view where, std::initializer_list<std::string_view> known);

  bool Has(std::string_view key) const;
  int64_t Int(std::string_view key, int64_t min = 0,
              int64_t max = std::numeric_limits<int64_t>::max());
  std::string Text(std::string_view key);
  uint32_t Hex32(std::string_view key);
  std::vector<int64_t> Ints(std::string_view key);  // each >= 0
  std::map<std::string, std::string> Texts(std::string_view key);
  const std::vector<Json>& Array(std::string_view key);

  // Corruption with the first fault.
  const Status& status() const { return status_; }

 private:
  const Json* Get(std::string_view key);
  void Fail(std::string_view key, std::string_view rule);

  const Json& object_;
  const std::string where_;
  Status status_;
};

}  // namespace shoal::ckpt
