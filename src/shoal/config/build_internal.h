// Turns a checked document into a Config: defaults of the dialect, derived values and the rules
// that join several keys. Not installed.
//
// Thread-safety: pure functions.
#pragma once

#include "shoal/config/check_internal.h"
#include "shoal/config/config.h"

namespace shoal::config {

// Faults and notes are appended to those of `checked`; the Config is meaningful only without
// faults.
Config BuildConfig(Checked* checked);

}  // namespace shoal::config
