// The few UTF-8 operations that the JSON reader needs. Not installed.
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shoal::config {

// Offset of the first byte that is not part of well-formed UTF-8 (overlong forms, surrogates and
// code points beyond U+10FFFF are not), or text.size().
size_t FirstInvalidUtf8(std::string_view text);

// Appends one code point. @pre code <= 0x10FFFF and no surrogate.
void AppendUtf8(uint32_t code, std::string* out);

// The largest size <= `limit` at which `text` can be cut without splitting a character.
size_t CutAtCharacter(std::string_view text, size_t limit);

}  // namespace shoal::config
