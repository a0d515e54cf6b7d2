#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "shoal/config/json_internal.h"
#include "shoal/config/utf8_internal.h"

namespace shoal::config {
namespace {

bool IsWordByte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
         c == '-' || c == '.' || c == '_';
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

size_t SkipDigits(std::string_view word, size_t at) {
  while (at < word.size() && IsDigit(word[at])) ++at;
  return at;
}

// -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?
bool IsJsonNumber(std::string_view word) {
  size_t at = !word.empty() && word[0] == '-' ? 1 : 0;
  const size_t integer = at;
  at = SkipDigits(word, at);
  if (at == integer || (word[integer] == '0' && at > integer + 1)) return false;
  if (at < word.size() && word[at] == '.') {
    const size_t fraction = ++at;
    at = SkipDigits(word, at);
    if (at == fraction) return false;
  }
  if (at < word.size() && (word[at] == 'e' || word[at] == 'E')) {
    ++at;
    if (at < word.size() && (word[at] == '+' || word[at] == '-')) ++at;
    const size_t exponent = at;
    at = SkipDigits(word, at);
    if (at == exponent) return false;
  }
  return at == word.size();
}

std::string ExplainBareWord(std::string_view word) {
  std::string lower(word);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const std::string shown = Printable(word);
  if (lower == "true" || lower == "false")
    return fmt::format("found {}; JSON writes {}", shown, lower);
  if (lower == "none") return "found None; JSON writes null";
  std::string_view bare = lower;
  if (bare.starts_with('-') || bare.starts_with('+')) bare.remove_prefix(1);
  if (bare == "inf" || bare == "infinity" || bare == "nan") {
    return fmt::format("must be a finite number, found {}", shown);
  }
  if (!bare.empty() && (IsDigit(bare[0]) || bare[0] == '.')) {
    return fmt::format("{} is not a number as JSON writes them", shown);
  }
  return fmt::format("found the bare word {}; texts need double quotes", shown);
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Document Read() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = line_start_ = 3;
    Node root;
    if (SkipBlanks() && ReadValue(&root, 0) && SkipBlanks()) {
      if (at_ < text_.size()) {
        Stop("found more text after the end of the document");
      } else if (root.kind != Kind::kObject && root.kind != Kind::kBad) {
        AddFault(root.position, "a configuration must be an object { ... }");
        stopped_ = true;
      }
    }
    return Document{std::move(root), !stopped_, std::move(faults_)};
  }

 private:
  Position Here() const { return {line_, static_cast<int64_t>(at_ - line_start_) + 1}; }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool AtEnd() const { return at_ >= text_.size(); }

  void AddFault(Position position, std::string message) {
    faults_.push_back({position, path_, std::move(message), false});
  }

  // Records a fault after which reading cannot go on. Always false.
  bool Stop(std::string message) {
    AddFault(Here(), std::move(message));
    stopped_ = true;
    return false;
  }

  bool StopUnexpected(std::string_view wanted) {
    if (AtEnd()) return Stop(fmt::format("the document ends here, expected {}", wanted));
    if (Peek() == '#') return Stop("comments start with //, found #");
    return Stop(fmt::format("expected {}, found \"{}\"", wanted, Printable(text_.substr(at_, 1))));
  }

  void NewLine() {
    ++line_;
    line_start_ = at_;
  }

  bool SkipBlockComment() {
    const Position start = Here();
    at_ += 2;
    while (at_ + 1 < text_.size()) {
      if (text_[at_] == '*' && text_[at_ + 1] == '/') {
        at_ += 2;
        return true;
      }
      if (text_[at_++] == '\n') NewLine();
    }
    AddFault(start, "this comment is never closed with */");
    stopped_ = true;
    return false;
  }

  bool SkipBlanks() {
    while (!AtEnd()) {
      const char c = Peek();
      if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '\n') {
        ++at_;
        NewLine();
      } else if (text_.substr(at_, 2) == "//") {
        while (!AtEnd() && Peek() != '\n') ++at_;
      } else if (text_.substr(at_, 2) == "/*") {
        if (!SkipBlockComment()) return false;
      } else {
        return true;
      }
    }
    return true;
  }

  bool ReadValue(Node* node, int depth) {
    node->position = Here();
    if (depth > kMaxDepth) return Stop(fmt::format("nested deeper than {} levels", kMaxDepth));
    switch (Peek()) {
      case '{':
        return ReadObject(node, depth);
      case '[':
        return ReadArray(node, depth);
      case '"':
        node->kind = Kind::kString;
        return ReadString(&node->text);
      case '\'':
        return ReadSingleQuoted(node);
      default:
        return ReadWord(node);
    }
  }

  bool ReadWord(Node* node) {
    const size_t start = at_;
    while (!AtEnd() && IsWordByte(Peek())) ++at_;
    if (at_ == start) return StopUnexpected("a value");
    const std::string_view word = text_.substr(start, at_ - start);
    if (word == "null") return true;
    if (word == "true" || word == "false") {
      node->kind = Kind::kBool;
      node->boolean = word == "true";
      return true;
    }
    node->kind = Kind::kNumber;
    node->text = word;
    if (!IsJsonNumber(word)) {
      MarkBad(node, ExplainBareWord(word));
      return true;
    }
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), node->number);
    if (parsed.ec != std::errc()) {
      MarkBad(node, fmt::format("{} is outside the range of a double", Printable(word)));
    }
    return true;
  }

  void MarkBad(Node* node, std::string message) {
    node->kind = Kind::kBad;
    AddFault(node->position, std::move(message));
  }

  bool ReadSingleQuoted(Node* node) {
    const size_t end = text_.find_first_of("'\n", at_ + 1);
    if (end == std::string_view::npos || text_[end] == '\n') {
      return Stop("texts need double quotes");
    }
    at_ = end + 1;
    MarkBad(node, "texts need double quotes, found single quotes");
    return true;
  }

  bool ReadArray(Node* node, int depth) {
    node->kind = Kind::kArray;
    ++at_;
    const size_t path_size = path_.size();
    for (;;) {
      if (!SkipBlanks()) return false;
      if (Peek() == ']') break;
      path_ += fmt::format("[{}]", node->items.size());
      node->items.emplace_back();
      if (!ReadValue(&node->items.back(), depth + 1)) return false;
      path_.resize(path_size);
      if (!ReadSeparator(']')) return false;
    }
    ++at_;
    return true;
  }

  bool ReadObject(Node* node, int depth) {
    node->kind = Kind::kObject;
    ++at_;
    const size_t path_size = path_.size();
    std::map<std::string, Position, std::less<>> seen;
    for (;;) {
      if (!SkipBlanks()) return false;
      if (Peek() == '}') break;
      Member member;
      member.position = Here();
      if (!ReadKey(&member.key)) return false;
      path_ = JoinPath(path_, Printable(member.key));
      if (!ReadValue(&member.value, depth + 1)) return false;
      const auto [first, is_new] = seen.emplace(member.key, member.position);
      if (is_new) {
        node->members.push_back(std::move(member));
      } else {
        AddFault(member.position,
                 fmt::format("duplicate key; first given in line {}", first->second.line));
      }
      path_.resize(path_size);
      if (!ReadSeparator('}')) return false;
    }
    ++at_;
    return true;
  }

  // Reads `"key" :` up to the value.
  bool ReadKey(std::string* key) {
    if (Peek() != '"') return StopUnexpected("a key in double quotes or }");
    if (!ReadString(key) || !SkipBlanks()) return false;
    if (Peek() != ':')
      return StopUnexpected(fmt::format("\":\" after the key \"{}\"", Printable(*key)));
    ++at_;
    return SkipBlanks();
  }

  // Between two entries: a comma, or `close` ahead (not consumed). A missing comma is a fault of
  // its own.
  bool ReadSeparator(char close) {
    const Position end_of_value = Here();
    if (!SkipBlanks()) return false;
    if (Peek() == ',') {
      ++at_;
      return true;
    }
    if (Peek() == close) return true;
    if (close == '}' && Peek() == '"') {
      AddFault(end_of_value, "expected a comma here");
      return true;
    }
    return StopUnexpected(fmt::format("a comma or {}", close));
  }

  bool ReadString(std::string* out) {
    ++at_;
    for (;;) {
      if (AtEnd()) return Stop("the document ends inside a text");
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        return Stop("a text must end on its line (control characters are written as escapes)");
      }
      if (c != '\\') {
        out->push_back(c);
        ++at_;
      } else if (!ReadEscape(out)) {
        return false;
      }
    }
  }

  bool ReadEscape(std::string* out) {
    static constexpr std::string_view kFrom = "\"\\/bfnrt";
    static constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    ++at_;
    const char c = Peek();
    const size_t simple = kFrom.find(c);
    if (!AtEnd() && simple != std::string_view::npos) {
      out->push_back(kTo[simple]);
      ++at_;
      return true;
    }
    std::optional<uint32_t> code = ReadHex();
    if (code && *code >= 0xD800 && *code < 0xDC00 && text_.substr(at_, 2) == "\\u") {
      ++at_;
      const std::optional<uint32_t> low = ReadHex();
      code = low && *low >= 0xDC00 && *low < 0xE000
                 ? std::optional(0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00))
                 : std::nullopt;
    }
    if (!code || (*code >= 0xD800 && *code < 0xE000))
      return Stop("this escape is not valid in a text");
    AppendUtf8(*code, out);
    return true;
  }

  // Reads u and four hexadecimal digits.
  std::optional<uint32_t> ReadHex() {
    if (Peek() != 'u' || at_ + 5 > text_.size()) return std::nullopt;
    const char* begin = text_.data() + at_ + 1;
    uint32_t code = 0;
    const auto parsed = std::from_chars(begin, begin + 4, code, 16);
    if (parsed.ec != std::errc() || parsed.ptr != begin + 4) return std::nullopt;
    at_ += 5;
    return code;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int64_t line_ = 1;
  std::string path_;  // of the value being read
  bool stopped_ = false;
  std::vector<Fault> faults_;
};

Position PositionOf(std::string_view text, size_t at) {
  Position position;
  size_t line_start = 0;
  for (size_t i = 0; i < at; ++i) {
    if (text[i] != '\n') continue;
    ++position.line;
    line_start = i + 1;
  }
  position.column = static_cast<int64_t>(at - line_start) + 1;
  return position;
}

bool SameMembers(const Node& a, const Node& b) {
  if (a.members.size() != b.members.size()) return false;
  for (const Member& member : a.members) {
    const Node* other = b.Find(member.key);
    if (other == nullptr || !SameValue(member.value, *other)) return false;
  }
  return true;
}

bool SameItems(const Node& a, const Node& b) {
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!SameValue(a.items[i], b.items[i])) return false;
  }
  return true;
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

const Node* Node::Find(std::string_view key) const {
  for (const Member& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

Document ReadJson(std::string_view text) {
  Document document;
  if (static_cast<int64_t>(text.size()) > kMaxDocumentBytes) {
    document.faults.push_back(
        {{}, "", fmt::format("larger than the limit of {} bytes", kMaxDocumentBytes), false});
    return document;
  }
  if (const size_t bad = FirstInvalidUtf8(text); bad != text.size()) {
    document.faults.push_back({PositionOf(text, bad), "", "this byte is not UTF-8", false});
    return document;
  }
  return Reader(text).Read();
}

bool SameValue(const Node& a, const Node& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kNull:
    case Kind::kBad:
      return true;
    case Kind::kBool:
      return a.boolean == b.boolean;
    case Kind::kNumber:
      return a.number == b.number;
    case Kind::kString:
      return a.text == b.text;
    case Kind::kArray:
      return SameItems(a, b);
    case Kind::kObject:
      return SameMembers(a, b);
  }
  return false;
}

std::string ToJson(const Node& node) {
  switch (node.kind) {
    case Kind::kNull:
    case Kind::kBad:
      return "null";
    case Kind::kBool:
      return node.boolean ? "true" : "false";
    case Kind::kNumber:
      return node.text;
    case Kind::kString:
      return Quoted(node.text);
    case Kind::kArray: {
      std::string out = "[";
      for (const Node& item : node.items) {
        if (out.size() > 1) out += ", ";
        out += ToJson(item);
      }
      return out + "]";
    }
    case Kind::kObject: {
      std::string out = "{";
      for (const Member& member : node.members) {
        if (out.size() > 1) out += ", ";
        out += Quoted(member.key) + ": " + ToJson(member.value);
      }
      return out + "}";
    }
  }
  return "null";
}

std::string Printable(std::string_view text, size_t max_bytes) {
  std::string out;
  for (const char c : text.substr(0, CutAtCharacter(text, max_bytes))) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  if (text.size() > max_bytes) out += "...";
  return out;
}

std::string JoinPath(std::string_view path, std::string_view key) {
  if (path.empty()) return std::string(key);
  return fmt::format("{}.{}", path, key);
}

}  // namespace shoal::config
