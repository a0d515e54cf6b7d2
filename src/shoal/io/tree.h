// What callers of Storage need more than once, made of its calls.
//
// Thread-safety and failures as those of the Storage passed in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shoal/base/status.h"
#include "shoal/io/storage.h"

namespace shoal::io {

// "dir/name"; `dir` may end in a slash.
std::string JoinPath(std::string_view dir, std::string_view name);

// The part before the last name: "a/b" -> "a", "/a" -> "/", "a" -> ".".
std::string ParentDir(std::string_view path);

// Creates `dir` and the directories above it that are missing, durably. Ok if it exists.
Status CreateDirs(Storage& storage, const std::string& dir);

// Removes a file, or a directory with all that is in it. Ok if nothing is there.
Status RemoveTree(Storage& storage, const std::string& path);

// Creates the file `path` with `text` and syncs it (not its directory). InvalidArgument if it
// exists.
Status WriteTextDurably(Storage& storage, const std::string& path, std::string_view text);

// The whole file; Corruption if it has more than `max_bytes`.
Result<std::string> ReadText(Storage& storage, const std::string& path, int64_t max_bytes);

}  // namespace shoal::io
