// Which image serves a device: pure functions on index rows, so that every architecture is tested
// on a machine without a GPU.
//
// The rules, for a device of capability X.Y:
//   sm_XYa           that capability alone                        kExact
//   sm_XY            the same                                     kExact
//   sm_XZf, Z <= Y   the family X                                 kFamily
//   sm_XZ, Z < Y     same major, lower minor: normal, no fallback kSameMajor
//   compute_VW       VW <= XY, compiled by the driver: a fallback kPtx
// Between several the first in this list wins, then the higher number.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/device/image_index.h"

namespace shoal::device {

// How an image fits a device, better ones last.
enum class Match : int8_t {
  kNone = 0,       // It does not run there.
  kPtx = 1,        // The driver compiles it at load: best effort, an error in strict mode.
  kSameMajor = 2,  // Made for a lower minor of the same major.
  kFamily = 3,     // An 'f' image of the device's family.
  kExact = 4,      // Made for this very capability.
};

// "none", "PTX", "same major", "family", "exact".
std::string_view MatchName(Match match);

Match MatchImage(const ImageRow& image, int32_t capability);

// The best image of `family` that holds `kernel` (any image of the family if empty); null if there
// is none. Lives as long as the index.
const ImageRow* BestImage(const OpIndex& index, std::string_view family, std::string_view kernel,
                          int32_t capability);

// How a (op, dtype) is served on a device.
struct Selection {
  std::string family;               // empty: not served
  const ImageRow* image = nullptr;  // an image of the family; lives as long as the index
  Match match = Match::kNone;
  bool is_offered = true;  // false: the support table says that this pair is not to be had
  std::string why;         // one clause: why this family, or why none
};

// The first family of the table's row for `dtype` that has an image for the device, preferring
// cubins of any family to PTX. `allowed` restricts the families (empty: all). InvalidArgument if
// the table has no row for `dtype`.
Result<Selection> SelectFamily(const OpIndex& index, std::string_view dtype, int32_t capability,
                               const std::vector<std::string>& allowed = {});

}  // namespace shoal::device
