#include "shoal/ckpt/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "shoal/base/aligned.h"
#include "shoal/base/status.h"
#include "shoal/ckpt/json_internal.h"
#include "shoal/io/storage.h"

namespace shoal::ckpt {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr int64_t kSizeBytes = 8;  // of the number in front of the JSON
constexpr int64_t kMaxDepth = 3;   // header, entry, shape

struct DTypeBits {
  std::string_view name;
  int64_t bits;
};

constexpr std::array kDTypes = {
    DTypeBits{"BOOL", 8},    DTypeBits{"F4", 4},   DTypeBits{"F6_E2M3", 6}, DTypeBits{"F6_E3M2", 6},
    DTypeBits{"U8", 8},      DTypeBits{"I8", 8},   DTypeBits{"F8_E5M2", 8}, DTypeBits{"F8_E4M3", 8},
    DTypeBits{"F8_E8M0", 8}, DTypeBits{"I16", 16}, DTypeBits{"U16", 16},    DTypeBits{"F16", 16},
    DTypeBits{"BF16", 16},   DTypeBits{"I32", 32}, DTypeBits{"U32", 32},    DTypeBits{"F32", 32},
    DTypeBits{"C64", 64},    DTypeBits{"F64", 64}, DTypeBits{"I64", 64},    DTypeBits{"U64", 64},
};

Status Bad(const std::string& path, std::string_view what) {
  return Status::Corruption("read header", fmt::format("\"{}\": {}", path, what));
}

// Ok if the entry's bytes are what dtype and shape need.
Status CheckEntry(const SafetensorsEntry& entry, const std::string& path) {
  const int64_t bits = SafetensorsDTypeBits(entry.dtype);
  if (bits == 0) return Bad(path, fmt::format("unknown dtype \"{}\"", entry.dtype));
  int64_t total_bits = bits;
  for (const int64_t size : entry.shape) {
    if (__builtin_mul_overflow(total_bits, size, &total_bits)) {
      return Bad(path, fmt::format("the size of \"{}\" overflows", entry.name));
    }
  }
  const bool fits = entry.begin_bytes <= entry.end_bytes && total_bits % 8 == 0 &&
                    entry.end_bytes - entry.begin_bytes == total_bits / 8;
  if (fits) return Status();
  return Bad(path, fmt::format("\"{}\" has {} bits but the offsets {} to {}", entry.name,
                               total_bits, entry.begin_bytes, entry.end_bytes));
}

Result<SafetensorsEntry> EntryFromJson(const std::string& name, const Json& json,
                                       const std::string& path) {
  Fields fields(json, fmt::format("\"{}\": tensor \"{}\"", path, name),
                {"dtype", "shape", "data_offsets"});
  SafetensorsEntry entry{
      .name = name, .dtype = fields.Text("dtype"), .shape = fields.Ints("shape")};
  const std::vector<int64_t> offsets = fields.Ints("data_offsets");
  SHOAL_RETURN_IF_ERROR(fields.status());
  if (offsets.size() != 2) {
    return Bad(path, fmt::format("tensor \"{}\" must have two data_offsets", name));
  }
  entry.begin_bytes = offsets[0];
  entry.end_bytes = offsets[1];
  SHOAL_RETURN_IF_ERROR(CheckEntry(entry, path));
  return entry;
}

// Ok if the entries, in the order of their bytes, fill the data without overlap and hole.
Status CheckPacking(const std::vector<SafetensorsEntry>& entries, int64_t data_bytes,
                    const std::string& path) {
  int64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin_bytes != end) {
      return Bad(path, fmt::format("\"{}\" begins at byte {} of the data, which {} byte {}",
                                   entry.name, entry.begin_bytes,
                                   entry.begin_bytes < end ? "overlaps what ends at"
                                                           : "leaves a hole after",
                                   end));
    }
    end = entry.end_bytes;
  }
  if (end == data_bytes) return Status();
  return Bad(path,
             fmt::format("the tensors end at byte {} of the data, which has {}", end, data_bytes));
}

}  // namespace

int64_t SafetensorsDTypeBits(std::string_view dtype) {
  const auto* found = std::find_if(kDTypes.begin(), kDTypes.end(),
                                   [&](const DTypeBits& entry) { return entry.name == dtype; });
  return found == kDTypes.end() ? 0 : found->bits;
}

Result<std::string> SafetensorsHeaderToText(const SafetensorsHeader& header) {
  SHOAL_ASSIGN_OR_RETURN(std::string json, DumpJson(OrderedJson(header.metadata)));
  json = fmt::format("{{\"{}\":{}", kMetadataKey, json);
  for (const SafetensorsEntry& entry : header.entries) {
    OrderedJson value;
    value["dtype"] = entry.dtype;
    value["shape"] = entry.shape;
    value["data_offsets"] = {entry.begin_bytes, entry.end_bytes};
    SHOAL_ASSIGN_OR_RETURN(const std::string name, DumpJson(OrderedJson(entry.name)));
    SHOAL_ASSIGN_OR_RETURN(const std::string text, DumpJson(value));
    json += fmt::format(",{}:{}", name, text);
  }
  json += '}';
  const int64_t total = AlignUp(static_cast<int64_t>(json.size()) + kSizeBytes, kHeaderAlignment);
  const int64_t json_bytes = total - kSizeBytes;
  if (json_bytes > kMaxHeaderBytes) {
    return Status::Unsupported(
        "write header", fmt::format("{} tensors need a header of {} bytes, the format allows {}",
                                    header.entries.size(), json_bytes, kMaxHeaderBytes));
  }
  json.resize(static_cast<size_t>(json_bytes), ' ');
  std::string text;
  for (int shift = 0; shift < 64; shift += 8) {
    text += static_cast<char>((static_cast<uint64_t>(json_bytes) >> shift) & 0xFF);
  }
  return text + json;
}

Result<SafetensorsHeader> SafetensorsHeaderFromJson(std::string_view json, int64_t data_bytes,
                                                    const std::string& path) {
  if (!json.starts_with('{')) return Bad(path, "the header does not begin with {");
  SHOAL_ASSIGN_OR_RETURN(const Json value, ParseJson(json, kMaxDepth, fmt::format("\"{}\"", path)));
  SafetensorsHeader header;
  for (const auto& member : value.items()) {
    if (member.key() == kMetadataKey) {
      const Json wrapped = {{kMetadataKey, member.value()}};
      Fields fields(wrapped, fmt::format("\"{}\"", path), {kMetadataKey});
      header.metadata = fields.Texts(kMetadataKey);
      SHOAL_RETURN_IF_ERROR(fields.status());
      continue;
    }
    SHOAL_ASSIGN_OR_RETURN(SafetensorsEntry entry,
                           EntryFromJson(member.key(), member.value(), path));
    header.entries.push_back(std::move(entry));
  }
  std::stable_sort(header.entries.begin(), header.entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::tie(a.begin_bytes, a.end_bytes) <
                            std::tie(b.begin_bytes, b.end_bytes);
                   });
  SHOAL_RETURN_IF_ERROR(CheckPacking(header.entries, data_bytes, path));
  return header;
}

Result<SafetensorsHeader> ReadSafetensorsHeader(const io::File& file, const std::string& path) {
  SHOAL_ASSIGN_OR_RETURN(const int64_t size_bytes, file.SizeBytes());
  if (size_bytes < kSizeBytes) return Bad(path, fmt::format("it has only {} bytes", size_bytes));
  std::array<std::byte, kSizeBytes> size = {};
  SHOAL_RETURN_IF_ERROR(file.ReadAt(0, size));
  uint64_t json_bytes = 0;
  for (size_t i = 0; i < size.size(); ++i) {
    json_bytes |= std::to_integer<uint64_t>(size[i]) << (8 * i);
  }
  const int64_t limit = std::min(kMaxHeaderBytes, size_bytes - kSizeBytes);
  if (json_bytes > static_cast<uint64_t>(limit)) {
    return Bad(path,
               fmt::format("the header has {} bytes, at most {} are possible", json_bytes, limit));
  }
  std::string json(static_cast<size_t>(json_bytes), '\0');
  SHOAL_RETURN_IF_ERROR(file.ReadAt(kSizeBytes, std::as_writable_bytes(std::span(json))));
  return SafetensorsHeaderFromJson(json, size_bytes - kSizeBytes - static_cast<int64_t>(json_bytes),
                                   path);
}

}  // namespace shoal::ckpt
