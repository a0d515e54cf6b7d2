// The header of a safetensors file: written, and read from files that anyone may have made.
//
// Reading refuses, naming the reason: a header larger than the file or 100,000,000 bytes, JSON that
// is malformed, nested deeper than the format needs or has a name twice, unknown members and
// dtypes, shapes whose size overflows, offsets that are out of the file, overlap, leave holes or
// disagree with shape and dtype.
//
// Thread-safety: values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/io/storage.h"

namespace shoal::ckpt {

inline constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format
inline constexpr int64_t kHeaderAlignment = 4096;

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16", ...
  std::vector<int64_t> shape;
  int64_t begin_bytes = 0;  // from the end of the header
  int64_t end_bytes = 0;

  friend bool operator==(const SafetensorsEntry&, const SafetensorsEntry&) = default;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes

  friend bool operator==(const SafetensorsHeader&, const SafetensorsHeader&) = default;
};

// Bits of one element, 0 for an unknown name.
int64_t SafetensorsDTypeBits(std::string_view dtype);

// The bytes before the data: size, JSON and padding to kHeaderAlignment. InvalidArgument for names
// that are not UTF-8; Unsupported above kMaxHeaderBytes.
Result<std::string> SafetensorsHeaderToText(const SafetensorsHeader& header);

// Parses the JSON of a header, `data_bytes` being the size of what follows it. Corruption names
// `path`.
Result<SafetensorsHeader> SafetensorsHeaderFromJson(std::string_view json, int64_t data_bytes,
                                                    const std::string& path);

// Reads and checks the header of an open file.
Result<SafetensorsHeader> ReadSafetensorsHeader(const io::File& file, const std::string& path);

}  // namespace shoal::ckpt
