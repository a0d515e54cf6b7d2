// Nearest names for messages. Not installed.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace shoal::config {

// Edits (insert, delete, replace, swap of neighbours) between `a` and `b`, letters without case.
int64_t EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, or empty when none is near enough to be a slip (a third of its
// letters).
std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates);

// What to say about a key that the schema lacks below the section `section` ("" = top level):
// `; did you mean "stage"?`, `; it belongs at fp16.loss_scale`, or nothing.
std::string SuggestKey(std::string_view section, std::string_view key);

// A row's path as written in documents: without the "(type)" of parameters.
std::string DisplayPath(std::string_view path);

// Letters without case.
bool EqualsIgnoreCase(std::string_view a, std::string_view b);

}  // namespace shoal::config
