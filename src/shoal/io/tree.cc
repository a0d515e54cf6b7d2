#include "shoal/io/tree.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/io/storage.h"

namespace shoal::io {

std::string JoinPath(std::string_view dir, std::string_view name) {
  if (dir.empty()) return std::string(name);
  return fmt::format("{}{}{}", dir, dir.ends_with('/') ? "" : "/", name);
}

std::string ParentDir(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  path = path.substr(0, slash);
  while (path.ends_with('/')) path.remove_suffix(1);
  return path.empty() ? "/" : std::string(path);
}

Status CreateDirs(Storage& storage, const std::string& dir) {
  std::vector<std::string> missing;
  for (std::string path = dir;; path = ParentDir(path)) {
    SHOAL_ASSIGN_OR_RETURN(const EntryKind kind, storage.Kind(path));
    if (kind == EntryKind::kDirectory) break;
    if (kind != EntryKind::kMissing) {
      return Status::InvalidArgument("create directory",
                                     fmt::format("\"{}\" exists and is no directory", path));
    }
    missing.push_back(path);
    if (path == "." || path == "/") break;
  }
  while (!missing.empty()) {
    const std::string path = missing.back();
    missing.pop_back();
    Status status = storage.CreateDir(path);
    if (!status.ok()) {
      // Another process may have made it meanwhile.
      const Result<EntryKind> kind = storage.Kind(path);
      if (!kind.ok() || *kind != EntryKind::kDirectory) return status;
    }
    SHOAL_RETURN_IF_ERROR(storage.SyncDir(ParentDir(path)));
  }
  return Status();
}

Status RemoveTree(Storage& storage, const std::string& path) {
  // Depth first, with a list instead of recursion: directories go after what they hold.
  std::vector<std::string> to_visit = {path};
  std::vector<std::string> dirs;
  while (!to_visit.empty()) {
    const std::string current = to_visit.back();
    to_visit.pop_back();
    SHOAL_ASSIGN_OR_RETURN(const EntryKind kind, storage.Kind(current));
    if (kind == EntryKind::kMissing) continue;
    if (kind != EntryKind::kDirectory) {
      SHOAL_RETURN_IF_ERROR(storage.RemoveFile(current));
      continue;
    }
    dirs.push_back(current);
    SHOAL_ASSIGN_OR_RETURN(const std::vector<std::string> names, storage.List(current));
    for (const std::string& name : names) to_visit.push_back(JoinPath(current, name));
  }
  for (auto dir = dirs.rbegin(); dir != dirs.rend(); ++dir) {
    SHOAL_RETURN_IF_ERROR(storage.RemoveDir(*dir));
  }
  return Status();
}

Status WriteTextDurably(Storage& storage, const std::string& path, std::string_view text) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, storage.Create(path));
  SHOAL_RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(text))));
  return file->Sync();
}

Result<std::string> ReadText(Storage& storage, const std::string& path, int64_t max_bytes) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, storage.OpenToRead(path));
  SHOAL_ASSIGN_OR_RETURN(const int64_t size_bytes, file->SizeBytes());
  if (size_bytes > max_bytes) {
    return Status::Corruption("read", fmt::format("\"{}\" has {} bytes, at most {} are expected",
                                                  path, size_bytes, max_bytes));
  }
  std::string text(static_cast<size_t>(size_bytes), '\0');
  SHOAL_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace shoal::io
