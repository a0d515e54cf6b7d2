#include "shoal/ckpt/json_internal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/base/status.h"

namespace shoal::ckpt {
namespace {

// Builds a value from the parser's events; the library's own builder keeps the last of two equal
// names silently and nests without bound.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit StrictBuilder(int64_t max_depth) : max_depth_(max_depth) {}

  bool null() override { return Add(Json(nullptr)); }
  bool boolean(bool value) override { return Add(Json(value)); }
  bool number_integer(number_integer_t value) override { return Add(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Add(Json(value)); }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return Add(Json(value));
  }
  bool string(string_t& value) override { return Add(Json(std::move(value))); }
  bool binary(binary_t& /*value*/) override { return Fail("binary value"); }
  bool start_object(size_t /*count*/) override { return Open(Json::object()); }
  bool start_array(size_t /*count*/) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& value) override {
    key_ = std::move(value);
    if (open_.back()->contains(key_)) return Fail(fmt::format("\"{}\" appears twice", key_));
    return true;
  }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return Fail(fmt::format("malformed JSON at byte {}", position));
  }

  Json TakeValue() { return std::move(root_); }
  const std::string& fault() const { return fault_; }

 private:
  bool Fail(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
    return false;
  }

  Json* Place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    Json& member = parent[key_];
    member = std::move(value);
    return &member;
  }

  bool Add(Json value) {
    Place(std::move(value));
    return true;
  }

  bool Open(Json value) {
    if (static_cast<int64_t>(open_.size()) >= max_depth_) {
      return Fail(fmt::format("nested deeper than {}", max_depth_));
    }
    open_.push_back(Place(std::move(value)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const int64_t max_depth_;
  Json root_;
  std::vector<Json*> open_;  // containers that are not complete yet, outermost first
  std::string key_;          // of the member that comes next
  std::string fault_;
};

}  // namespace

Result<Json> ParseJson(std::string_view text, int64_t max_depth, std::string_view where) {
  StrictBuilder builder(max_depth);
  if (!Json::sax_parse(text, &builder)) {
    return Status::Corruption("parse", fmt::format("{}: {}", where, builder.fault()));
  }
  return builder.TakeValue();
}

Result<std::string> DumpJson(const OrderedJson& value) {
  try {
    return value.dump();
  } catch (const OrderedJson::exception& error) {  // the one failure of dump: text is not UTF-8
    return Status::InvalidArgument("write JSON", error.what());
  }
}

std::string HexOf(uint32_t value) { return fmt::format("{:08x}", value); }

Fields::Fields(const Json& object, std::string_view where,
               std::initializer_list<std::string_view> known)
    : object_(object), where_(where) {
  if (!object.is_object()) {
    status_ = Status::Corruption("parse", fmt::format("{} is no JSON object", where));
    return;
  }
  for (const auto& member : object.items()) {
    if (std::find(known.begin(), known.end(), member.key()) == known.end()) {
      Fail(member.key(), "is not known to this version");
      return;
    }
  }
}

bool Fields::Has(std::string_view key) const {
  return object_.is_object() && object_.contains(key);
}

void Fields::Fail(std::string_view key, std::string_view rule) {
  if (status_.ok()) {
    status_ = Status::Corruption("parse", fmt::format("{}: \"{}\" {}", where_, key, rule));
  }
}

const Json* Fields::Get(std::string_view key) {
  if (!status_.ok()) return nullptr;
  const auto member = object_.find(key);
  if (member != object_.end()) return &*member;
  Fail(key, "is missing");
  return nullptr;
}

int64_t Fields::Int(std::string_view key, int64_t min, int64_t max) {
  const Json* value = Get(key);
  if (value == nullptr) return 0;
  const bool is_int64 = value->is_number_integer() &&
                        (!value->is_number_unsigned() ||
                         value->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  if (!is_int64 || value->get<int64_t>() < min || value->get<int64_t>() > max) {
    Fail(key, fmt::format("must be an integer in [{}, {}]", min, max));
    return 0;
  }
  return value->get<int64_t>();
}

std::string Fields::Text(std::string_view key) {
  const Json* value = Get(key);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  Fail(key, "must be a string");
  return {};
}

uint32_t Fields::Hex32(std::string_view key) {
  const std::string text = Text(key);
  uint32_t value = 0;
  const bool is_hex =
      text.size() == 8 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hex) {
    Fail(key, "must be 8 hexadecimal digits");
    return 0;
  }
  for (const char digit : text) {
    value = value * 16 + static_cast<uint32_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
  }
  return value;
}

std::vector<int64_t> Fields::Ints(std::string_view key) {
  std::vector<int64_t> result;
  for (const Json& value : Array(key)) {
    const bool is_size = value.is_number_unsigned() &&
                         value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
    if (!is_size) {
      Fail(key, "must hold integers >= 0");
      return {};
    }
    result.push_back(value.get<int64_t>());
  }
  return result;
}

std::map<std::string, std::string> Fields::Texts(std::string_view key) {
  std::map<std::string, std::string> result;
  const Json* value = Get(key);
  if (value == nullptr) return result;
  if (!value->is_object()) {
    Fail(key, "must be an object of strings");
    return result;
  }
  for (const auto& member : value->items()) {
    if (!member.value().is_string()) {
      Fail(key, "must be an object of strings");
      return {};
    }
    result.emplace(member.key(), member.value().get<std::string>());
  }
  return result;
}

const std::vector<Json>& Fields::Array(std::string_view key) {
  static const std::vector<Json> empty;
  const Json* value = Get(key);
  if (value == nullptr) return empty;
  if (value->is_array()) return value->get_ref<const std::vector<Json>&>();
  Fail(key, "must be an array");
  return empty;
}

}  // namespace shoal::ckpt
