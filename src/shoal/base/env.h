// Environment variables: the one place where native code reads them. docs/envvars.md lists the same
// names, which a test compares. Nothing here writes the environment.
//
// Thread-safety: as getenv: safe while nobody calls setenv.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shoal {

enum class EnvVar {
  kRank,      // RANK: this process in the job, set by the launcher; marks log lines
  kLogLevel,  // SHOAL_LOG_LEVEL: debug, info, warning or error; what the default log sink writes
};

struct EnvVarInfo {
  EnvVar variable;
  std::string_view name;
};

// All of them, in the order of the enum.
std::span<const EnvVarInfo> EnvVars();

// The value, or nullopt if the variable is not set. An empty value counts as not set.
std::optional<std::string> ReadEnv(EnvVar variable);

// The value of RANK, or "?".
std::string RankForMessages();

}  // namespace shoal
