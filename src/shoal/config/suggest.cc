#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "shoal/config/schema.h"
#include "shoal/config/suggest_internal.h"

namespace shoal::config {
namespace {

constexpr size_t kLongestWord = 80;  // longer keys get no suggestion: the search is quadratic

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view Leaf(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

std::string_view Parent(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

// Paths of other sections whose last name is `key`, as documents write them. Sections that are off
// count only when no other has it.
std::set<std::string> PlacesOf(std::string_view key) {
  std::set<std::string> places, places_off;
  for (const KeySpec& row : Schema()) {
    if (row.action == Action::kRefused || Leaf(row.path) != key) continue;
    (row.action == Action::kIgnored ? places_off : places).insert(DisplayPath(row.path));
  }
  return places.empty() ? places_off : places;
}

std::vector<std::string_view> Siblings(std::string_view section) {
  std::vector<std::string_view> names;
  for (const KeySpec& row : Schema()) {
    if (row.action != Action::kRefused && Parent(row.path) == section) {
      names.push_back(Leaf(row.path));
    }
  }
  for (const KeyAlias& alias : Aliases()) {
    if (Parent(alias.path) == section) names.push_back(Leaf(alias.path));
  }
  return names;
}

}  // namespace

int64_t EditDistance(std::string_view a, std::string_view b) {
  const size_t columns = b.size() + 1;
  std::vector<int64_t> before(columns), last(columns), row(columns);
  for (size_t j = 0; j < columns; ++j) last[j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j < columns; ++j) {
      const bool same = Lower(a[i - 1]) == Lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) &&
                           Lower(a[i - 2]) == Lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[columns - 1];
}

std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  if (word.size() > kLongestWord) return best;
  int64_t best_distance = std::max<int64_t>(1, static_cast<int64_t>(word.size()) / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const int64_t distance = EditDistance(word, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

std::string SuggestKey(std::string_view section, std::string_view key) {
  const std::set<std::string> places = PlacesOf(key);
  if (places.size() == 1) {
    const std::string& place = *places.begin();
    if (place.find('.') == std::string::npos) {
      return fmt::format("; \"{}\" belongs at the top level", place);
    }
    return fmt::format("; it belongs at {}", place);
  }
  const std::vector<std::string_view> siblings = Siblings(section);
  if (const std::string_view near = Nearest(key, siblings); !near.empty()) {
    return fmt::format("; did you mean \"{}\"?", near);
  }
  for (const KeySpec& row : Schema()) {
    if (key.size() > 4 && row.action != Action::kRefused && key.size() <= kLongestWord &&
        EditDistance(key, Leaf(row.path)) <= 2) {
      return fmt::format("; did you mean {}?", DisplayPath(row.path));
    }
  }
  return "";
}

std::string DisplayPath(std::string_view path) {
  const size_t open = path.find('(');
  const size_t close = path.find(')');
  if (open == std::string_view::npos || close == std::string_view::npos) return std::string(path);
  return fmt::format("{}{}", path.substr(0, open), path.substr(close + 1));
}

bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return Lower(x) == Lower(y); });
}

}  // namespace shoal::config
