// Names of the files and directories of a checkpoint (docs/formats/checkpoint.md, Names).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shoal::ckpt {

inline constexpr std::string_view kIndexName = "index.json";
inline constexpr std::string_view kLatestName = "latest";
inline constexpr std::string_view kLockName = "lock";

enum class DirKind {
  kOther,     // None of ours.
  kComplete,  // "step-00000001": complete.
  kTemp,      // "step-00000001.tmp-<id>": being written or deleted, or left by a crash.
  kOld,       // "step-00000001.old-<id>": complete, moved aside.
};

struct DirName {
  DirKind kind = DirKind::kOther;
  int64_t step = 0;
};

DirName ParseDirName(std::string_view name);

// 16 lower-case hexadecimal digits?
bool IsSaveId(std::string_view id);

// "latest.tmp-<id>"?
bool IsLatestTemp(std::string_view name);

std::string TempDirName(int64_t step, std::string_view save_id);
std::string OldDirName(int64_t step, std::string_view save_id);
std::string LatestTempName(std::string_view save_id);

// "rank-00003.safetensors".
std::string RankFileName(int64_t rank);

}  // namespace shoal::ckpt
