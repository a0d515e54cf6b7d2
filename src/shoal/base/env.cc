#include "shoal/base/env.h"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>

namespace shoal {
namespace {

constexpr std::array<EnvVarInfo, 2> kEnvVars = {{
    {EnvVar::kRank, "RANK"},
    {EnvVar::kLogLevel, "SHOAL_LOG_LEVEL"},
}};

}  // namespace

std::span<const EnvVarInfo> EnvVars() { return kEnvVars; }

std::optional<std::string> ReadEnv(EnvVar variable) {
  const EnvVarInfo& info = kEnvVars[static_cast<size_t>(variable)];
  // Names are literals, so they end with 0.
  const char* value =
      std::getenv(info.name.data());  // NOLINT(bugprone-suspicious-stringview-data-usage)
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::string RankForMessages() { return ReadEnv(EnvVar::kRank).value_or("?"); }

}  // namespace shoal
