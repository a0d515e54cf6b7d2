// Which checkpoint of a run to resume from, and the names of checkpoint directories.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/io/storage.h"

namespace shoal::ckpt {

// "step-00001000".
std::string StepDirName(int64_t step);

// The step of a name that StepDirName gives; nullopt for any other.
std::optional<int64_t> ParseStepDirName(std::string_view name);

struct Latest {
  std::string dir = {};                   // path of a complete checkpoint
  std::vector<std::string> skipped = {};  // what was passed over and why, one line each
};

// Follows `root`/latest; `root` may also be a checkpoint itself. Where `latest` does not name a
// complete checkpoint, this takes the highest step that is complete. NotFound, naming what was
// passed over, if there is none.
Result<Latest> FindLatest(io::Storage& storage, const std::string& root);

}  // namespace shoal::ckpt
