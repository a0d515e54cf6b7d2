// The text forms of the manifest (docs/formats/checkpoint.md, index.json).
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/ckpt/crc32c.h"
#include "shoal/ckpt/json_internal.h"
#include "shoal/ckpt/manifest.h"

namespace shoal::ckpt {
namespace {

constexpr std::string_view kFormat = "shoal-checkpoint";
constexpr int64_t kMaxDepth = 6;  // index, tensors, tensor, pieces, piece, flat

// The last bytes of an index.
std::string ChecksumTail(uint32_t crc) { return fmt::format(",\"crc32c\":\"{}\"}}\n", HexOf(crc)); }

uint32_t CrcOf(std::string_view text) { return Crc32c(std::as_bytes(std::span(text))); }

OrderedJson FileToJson(const FileRecord& file) {
  OrderedJson json;
  json["name"] = file.name;
  json["rank"] = file.rank;
  json["bytes"] = file.size_bytes;
  json["header_bytes"] = file.header_bytes;
  json["header_crc32c"] = HexOf(file.header_crc32c);
  json["state"] = file.state_json;
  return json;
}

Result<FileRecord> FileFromJson(const Json& json, std::string_view where) {
  Fields fields(json, fmt::format("{}: a file", where),
                {"name", "rank", "bytes", "header_bytes", "header_crc32c", "state"});
  FileRecord file{.name = fields.Text("name"),
                  .rank = fields.Int("rank"),
                  .size_bytes = fields.Int("bytes"),
                  .header_bytes = fields.Int("header_bytes"),
                  .header_crc32c = fields.Hex32("header_crc32c"),
                  .state_json = fields.Text("state")};
  SHOAL_RETURN_IF_ERROR(fields.status());
  return file;
}

OrderedJson TensorToJson(const TensorRecord& tensor) {
  OrderedJson json;
  json["name"] = tensor.name;
  json["role"] = tensor.role;
  json["dtype"] = DTypeName(tensor.dtype);
  json["shape"] = tensor.shape;
  if (!tensor.dim_order.empty()) json["dim_order"] = tensor.dim_order;
  OrderedJson& pieces = json["pieces"] = OrderedJson::array();
  for (const PieceRecord& piece : tensor.pieces) {
    OrderedJson record;
    record["file"] = piece.file;
    record["offset"] = piece.offset_bytes;
    record["bytes"] = (piece.flat_end - piece.flat_begin) * DTypeBytes(tensor.dtype);
    record["flat"] = {piece.flat_begin, piece.flat_end};
    record["crc32c"] = HexOf(piece.crc32c);
    pieces.push_back(std::move(record));
  }
  return json;
}

Result<PieceRecord> PieceFromJson(const Json& json, const std::string& where, int64_t item_bytes) {
  Fields fields(json, where, {"file", "offset", "bytes", "flat", "crc32c"});
  PieceRecord piece{.file = fields.Int("file"),
                    .offset_bytes = fields.Int("offset"),
                    .crc32c = fields.Hex32("crc32c")};
  const int64_t bytes = fields.Int("bytes");
  const std::vector<int64_t> flat = fields.Ints("flat");
  SHOAL_RETURN_IF_ERROR(fields.status());
  if (flat.size() != 2 || flat[0] > flat[1] || bytes % item_bytes != 0 ||
      bytes / item_bytes != flat[1] - flat[0]) {
    return Status::Corruption("parse",
                              fmt::format("{}: {} bytes do not fit \"flat\"", where, bytes));
  }
  piece.flat_begin = flat[0];
  piece.flat_end = flat[1];
  return piece;
}

Result<TensorRecord> TensorFromJson(const Json& json, std::string_view where) {
  Fields fields(json, fmt::format("{}: a tensor", where),
                {"name", "role", "dtype", "shape", "dim_order", "pieces"});
  TensorRecord tensor{
      .name = fields.Text("name"), .role = fields.Text("role"), .shape = fields.Ints("shape")};
  const std::string dtype_name = fields.Text("dtype");
  if (fields.Has("dim_order")) tensor.dim_order = fields.Ints("dim_order");
  const std::vector<Json>& pieces = fields.Array("pieces");
  SHOAL_RETURN_IF_ERROR(fields.status());
  const std::optional<DType> dtype = ParseDType(dtype_name);
  if (!dtype.has_value() || DTypeName(*dtype) != dtype_name) {
    return Status::Corruption("parse", fmt::format("{}: tensor \"{}\": unknown dtype \"{}\"", where,
                                                   tensor.name, dtype_name));
  }
  tensor.dtype = *dtype;
  const std::string piece_where = fmt::format("{}: a piece of \"{}\"", where, tensor.name);
  for (const Json& piece : pieces) {
    SHOAL_ASSIGN_OR_RETURN(const PieceRecord record,
                           PieceFromJson(piece, piece_where, DTypeBytes(tensor.dtype)));
    tensor.pieces.push_back(record);
  }
  return tensor;
}

Result<std::vector<FileRecord>> FilesFromJson(const std::vector<Json>& array,
                                              std::string_view where) {
  std::vector<FileRecord> files;
  for (const Json& json : array) {
    SHOAL_ASSIGN_OR_RETURN(FileRecord file, FileFromJson(json, where));
    files.push_back(std::move(file));
  }
  return files;
}

Result<std::vector<TensorRecord>> TensorsFromJson(const std::vector<Json>& array,
                                                  std::string_view where) {
  std::vector<TensorRecord> tensors;
  for (const Json& json : array) {
    SHOAL_ASSIGN_OR_RETURN(TensorRecord tensor, TensorFromJson(json, where));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Appends `"key":[` and one line per element.
template <typename Records>
Status AppendLines(std::string& text, std::string_view key, const Records& records,
                   OrderedJson (*to_json)(const typename Records::value_type&)) {
  text += fmt::format(",\n\"{}\":[", key);
  std::string_view separator = "\n";
  for (const auto& record : records) {
    SHOAL_ASSIGN_OR_RETURN(const std::string line, DumpJson(to_json(record)));
    text += separator;
    text += line;
    separator = ",\n";
  }
  text += ']';
  return Status();
}

// The text before the checksum, which must be right.
Result<std::string_view> CheckedBody(std::string_view text, const std::string& path) {
  const size_t tail_bytes = ChecksumTail(0).size();
  if (text.size() > tail_bytes) {
    const std::string_view body = text.substr(0, text.size() - tail_bytes);
    if (text.substr(body.size()) == ChecksumTail(CrcOf(body))) return body;
  }
  return Status::Corruption(
      "parse", fmt::format("\"{}\" is damaged or cut short: its checksum does not fit", path));
}

Status CheckFormat(const Json& json, const std::string& where) {
  const bool is_ours = json.is_object() && json.contains("format") && json["format"] == kFormat;
  if (!is_ours) return Status::Corruption("parse", fmt::format("{} is no Shoal index", where));
  const auto version = json.find("format_version");
  if (version != json.end() && version->is_number_integer() && *version == kFormatVersion) {
    return Status();
  }
  return Status::Unsupported(
      "parse", fmt::format("{} has format version {}, this Shoal reads {}", where,
                           version == json.end() ? "none" : version->dump(), kFormatVersion));
}

}  // namespace

Result<std::string> ManifestToText(const Manifest& manifest) {
  OrderedJson head;
  head["format"] = kFormat;
  head["format_version"] = kFormatVersion;
  head["step"] = manifest.step;
  head["save_id"] = manifest.save_id;
  head["shoal_version"] = manifest.run.shoal_version;
  head["torch_version"] = manifest.run.torch_version;
  head["mesh"] = manifest.run.mesh;
  head["zero_stage"] = manifest.run.zero_stage;
  head["world_size"] = manifest.run.world_size;
  head["aliases"] = OrderedJson(OrderedJson::object());
  for (const auto& [alias, target] : manifest.run.aliases) head["aliases"][alias] = target;
  head["state"] = manifest.run.state_json;
  SHOAL_ASSIGN_OR_RETURN(std::string text, DumpJson(head));
  text.pop_back();  // the closing brace
  SHOAL_RETURN_IF_ERROR(AppendLines(text, "files", manifest.files, &FileToJson));
  SHOAL_RETURN_IF_ERROR(AppendLines(text, "tensors", manifest.tensors, &TensorToJson));
  return text + ChecksumTail(CrcOf(text));
}

Result<Manifest> ManifestFromText(std::string_view text, const std::string& path) {
  SHOAL_RETURN_IF_ERROR(CheckedBody(text, path).status());
  const std::string where = fmt::format("\"{}\"", path);
  SHOAL_ASSIGN_OR_RETURN(const Json json, ParseJson(text, kMaxDepth, where));
  SHOAL_RETURN_IF_ERROR(CheckFormat(json, where));
  Fields fields(
      json, where,
      {"format", "format_version", "step", "save_id", "shoal_version", "torch_version", "mesh",
       "zero_stage", "world_size", "aliases", "state", "files", "tensors", "crc32c"});
  Manifest manifest;
  manifest.step = fields.Int("step");
  manifest.save_id = fields.Text("save_id");
  manifest.run = {.shoal_version = fields.Text("shoal_version"),
                  .torch_version = fields.Text("torch_version"),
                  .mesh = fields.Text("mesh"),
                  .zero_stage = fields.Int("zero_stage"),
                  .world_size = fields.Int("world_size"),
                  .aliases = fields.Texts("aliases"),
                  .state_json = fields.Text("state")};
  const std::vector<Json>& files = fields.Array("files");
  const std::vector<Json>& tensors = fields.Array("tensors");
  SHOAL_RETURN_IF_ERROR(fields.status());
  SHOAL_ASSIGN_OR_RETURN(manifest.files, FilesFromJson(files, where));
  SHOAL_ASSIGN_OR_RETURN(manifest.tensors, TensorsFromJson(tensors, where));
  const Status status = CheckManifest(manifest);
  if (status.ok()) return manifest;
  return Status::Corruption("parse", fmt::format("{}: {}", where, status.message()));
}

Result<std::string> RankRecordsToText(const RankRecords& records) {
  OrderedJson json;
  json["file"] = FileToJson(records.file);
  OrderedJson& tensors = json["tensors"] = OrderedJson::array();
  for (const TensorRecord& tensor : records.tensors) tensors.push_back(TensorToJson(tensor));
  return DumpJson(json);
}

Result<RankRecords> RankRecordsFromText(std::string_view text) {
  constexpr std::string_view kWhere = "records of a rank";
  SHOAL_ASSIGN_OR_RETURN(const Json json, ParseJson(text, kMaxDepth, kWhere));
  Fields fields(json, kWhere, {"file", "tensors"});
  const std::vector<Json>& tensors = fields.Array("tensors");
  SHOAL_RETURN_IF_ERROR(fields.status());
  RankRecords records;
  SHOAL_ASSIGN_OR_RETURN(records.file, FileFromJson(json.value("file", Json::object()), kWhere));
  SHOAL_ASSIGN_OR_RETURN(records.tensors, TensorsFromJson(tensors, kWhere));
  return records;
}

}  // namespace shoal::ckpt
