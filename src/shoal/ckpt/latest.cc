#include "shoal/ckpt/latest.h"

#include <fmt/format.h>

#include <algorithm>
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

#include "shoal/base/status.h"
#include "shoal/ckpt/names_internal.h"
#include "shoal/io/storage.h"
#include "shoal/io/tree.h"

namespace shoal::ckpt {
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kTempMark = ".tmp-";
constexpr std::string_view kOldMark = ".old-";
constexpr int64_t kMaxLatestBytes = 4096;

Result<bool> IsComplete(io::Storage& storage, const std::string& dir) {
  SHOAL_ASSIGN_OR_RETURN(const io::EntryKind kind, storage.Kind(io::JoinPath(dir, kIndexName)));
  return kind == io::EntryKind::kFile;
}

// The name in `root`/latest; nullopt if there is no such file.
Result<std::optional<std::string>> ReadLatest(io::Storage& storage, const std::string& root) {
  const std::string path = io::JoinPath(root, kLatestName);
  SHOAL_ASSIGN_OR_RETURN(const io::EntryKind kind, storage.Kind(path));
  if (kind == io::EntryKind::kMissing) return std::optional<std::string>();
  SHOAL_ASSIGN_OR_RETURN(std::string name, io::ReadText(storage, path, kMaxLatestBytes));
  while (name.ends_with('\n')) name.pop_back();
  return std::optional<std::string>(std::move(name));
}

// Directories that may be checkpoints, and what is none.
struct Candidates {
  std::map<int64_t, std::string, std::greater<>> by_step;  // highest first
  std::vector<std::string> skipped;
};

Result<Candidates> ListCandidates(io::Storage& storage, const std::string& root) {
  SHOAL_ASSIGN_OR_RETURN(const std::vector<std::string> names, storage.List(root));
  Candidates result;
  std::map<int64_t, std::string> old;
  for (const std::string& name : names) {
    const DirName parsed = ParseDirName(name);
    if (parsed.kind == DirKind::kComplete) result.by_step[parsed.step] = name;
    if (parsed.kind == DirKind::kOld) old[parsed.step] = name;
    if (parsed.kind == DirKind::kTemp) {
      result.skipped.push_back(fmt::format("\"{}\": an unfinished save", name));
    }
  }
  // Moved aside and not replaced: a crash came between two renames.
  result.by_step.insert(old.begin(), old.end());
  return result;
}

}  // namespace

std::string StepDirName(int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

std::optional<int64_t> ParseStepDirName(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kStepPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || step < 0 || StepDirName(step) != name) return std::nullopt;
  return step;
}

DirName ParseDirName(std::string_view name) {
  const size_t dot = name.find('.');
  const std::optional<int64_t> step = ParseStepDirName(name.substr(0, dot));
  if (!step.has_value()) return {};
  if (dot == std::string_view::npos) return {DirKind::kComplete, *step};
  const std::string_view rest = name.substr(dot);
  if (!IsSaveId(rest.substr(std::min(rest.size(), kTempMark.size())))) return {};
  if (rest.starts_with(kTempMark)) return {DirKind::kTemp, *step};
  if (rest.starts_with(kOldMark)) return {DirKind::kOld, *step};
  return {};
}

bool IsSaveId(std::string_view id) {
  return id.size() == 16 && id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool IsLatestTemp(std::string_view name) {
  const std::string prefix = LatestTempName("");
  return name.starts_with(prefix) && IsSaveId(name.substr(prefix.size()));
}

std::string TempDirName(int64_t step, std::string_view save_id) {
  return fmt::format("{}{}{}", StepDirName(step), kTempMark, save_id);
}

std::string OldDirName(int64_t step, std::string_view save_id) {
  return fmt::format("{}{}{}", StepDirName(step), kOldMark, save_id);
}

std::string LatestTempName(std::string_view save_id) {
  return fmt::format("{}{}{}", kLatestName, kTempMark, save_id);
}

std::string RankFileName(int64_t rank) { return fmt::format("rank-{:05}.safetensors", rank); }

Result<Latest> FindLatest(io::Storage& storage, const std::string& root) {
  SHOAL_ASSIGN_OR_RETURN(const bool is_checkpoint, IsComplete(storage, root));
  if (is_checkpoint) return Latest{.dir = root};
  SHOAL_ASSIGN_OR_RETURN(Candidates candidates, ListCandidates(storage, root));
  Latest result{.skipped = std::move(candidates.skipped)};

  SHOAL_ASSIGN_OR_RETURN(const std::optional<std::string> named, ReadLatest(storage, root));
  if (named.has_value()) {
    const std::optional<int64_t> step = ParseStepDirName(*named);
    const auto found = step.has_value() ? candidates.by_step.find(*step) : candidates.by_step.end();
    if (found != candidates.by_step.end()) {
      result.dir = io::JoinPath(root, found->second);
      SHOAL_ASSIGN_OR_RETURN(const bool is_complete, IsComplete(storage, result.dir));
      if (is_complete) return result;
    }
    result.skipped.push_back(
        fmt::format("\"{}\": named by \"{}\", but no complete checkpoint", *named, kLatestName));
  }
  for (const auto& [step, name] : candidates.by_step) {
    result.dir = io::JoinPath(root, name);
    SHOAL_ASSIGN_OR_RETURN(const bool is_complete, IsComplete(storage, result.dir));
    if (is_complete) return result;
    result.skipped.push_back(fmt::format("\"{}\": no {}", name, kIndexName));
  }
  return Status::NotFound(
      "load", fmt::format("there is no complete checkpoint in \"{}\"{}", root,
                          result.skipped.empty()
                              ? std::string()
                              : fmt::format("; passed over: {}", fmt::join(result.skipped, ", "))));
}

}  // namespace shoal::ckpt
