#include "shoal/ckpt/rank_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
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
#include "shoal/ckpt/manifest_internal.h"
#include "shoal/ckpt/names_internal.h"
#include "shoal/ckpt/safetensors.h"
#include "shoal/io/storage.h"
#include "shoal/io/tree.h"

namespace shoal::ckpt {
namespace {

constexpr size_t kBlockBytes = size_t{4} << 20;

// How the elements of a dtype are named in a safetensors file.
struct StoredType {
  std::string_view name;
  int64_t bytes;        // of one stored number
  int64_t per_element;  // stored numbers per element: 2 for complex dtypes
};

StoredType StoredTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return {"F32", 4, 1};
    case DType::kFloat64:
      return {"F64", 8, 1};
    case DType::kBFloat16:
      return {"BF16", 2, 1};
    case DType::kFloat16:
      return {"F16", 2, 1};
    case DType::kInt8:
      return {"I8", 1, 1};
    case DType::kInt16:
      return {"I16", 2, 1};
    case DType::kInt32:
      return {"I32", 4, 1};
    case DType::kInt64:
      return {"I64", 8, 1};
    case DType::kUInt8:
      return {"U8", 1, 1};
    case DType::kBool:
      return {"BOOL", 1, 1};
    case DType::kComplex64:
      return {"F32", 4, 2};
    case DType::kComplex128:
      return {"F64", 8, 2};
  }
  return {"U8", 1, 1};
}

int64_t NumelOf(const PieceToWrite& piece) { return piece.flat_end - piece.flat_begin; }

std::span<const std::byte> BytesOf(const PieceToWrite& piece) {
  return {static_cast<const std::byte*>(piece.data),
          static_cast<size_t>(NumelOf(piece) * DTypeBytes(piece.dtype))};
}

TensorRecord RecordOf(const PieceToWrite& piece) {
  return {.name = piece.tensor,
          .role = piece.role,
          .dtype = piece.dtype,
          .shape = piece.global_shape,
          .dim_order = piece.dim_order};
}

Status CheckPiece(const PieceToWrite& piece) {
  const TensorRecord record = RecordOf(piece);
  SHOAL_RETURN_IF_ERROR(CheckTensorRecord(record));
  if (piece.flat_begin < 0 || piece.flat_end < piece.flat_begin ||
      piece.flat_end > record.numel()) {
    return Status::InvalidArgument(
        "save", fmt::format("{}: range [{}:{}] is not in its {} elements", Describe(record),
                            piece.flat_begin, piece.flat_end, record.numel()));
  }
  if (piece.data == nullptr && NumelOf(piece) > 0) {
    return Status::InvalidArgument("save", fmt::format("{}: data is null", Describe(record)));
  }
  return Status();
}

// The pieces that have elements, in the order in which they are stored.
std::vector<const PieceToWrite*> StorageOrder(std::span<const PieceToWrite> pieces) {
  std::vector<const PieceToWrite*> order;
  for (const PieceToWrite& piece : pieces) {
    if (NumelOf(piece) > 0) order.push_back(&piece);
  }
  std::stable_sort(order.begin(), order.end(), [](const PieceToWrite* a, const PieceToWrite* b) {
    return StoredTypeOf(a->dtype).bytes > StoredTypeOf(b->dtype).bytes;
  });
  return order;
}

SafetensorsHeader HeaderOf(const std::vector<const PieceToWrite*>& pieces, int64_t rank) {
  SafetensorsHeader header;
  header.metadata = {{"format", "shoal-checkpoint"},
                     {"format_version", std::to_string(kFormatVersion)},
                     {"rank", std::to_string(rank)}};
  int64_t offset = 0;
  for (const PieceToWrite* piece : pieces) {
    const StoredType type = StoredTypeOf(piece->dtype);
    const int64_t numel = NumelOf(*piece);
    const bool is_whole = piece->dim_order.empty() && numel == RecordOf(*piece).numel();
    SafetensorsEntry entry;
    entry.name =
        fmt::format("{}/{}[{}:{}]", piece->role, piece->tensor, piece->flat_begin, piece->flat_end);
    entry.dtype = type.name;
    entry.shape = is_whole ? piece->global_shape : std::vector<int64_t>{numel};
    if (type.per_element != 1) entry.shape.push_back(type.per_element);
    entry.begin_bytes = offset;
    offset += numel * DTypeBytes(piece->dtype);
    entry.end_bytes = offset;
    header.entries.push_back(std::move(entry));
  }
  return header;
}

// Writes bytes one after the other: many small ones become few large writes.
class Appender {
 public:
  explicit Appender(io::File* file) : file_(file) { buffer_.reserve(kBlockBytes); }

  // Returns the checksum of `bytes`.
  Result<uint32_t> Append(std::span<const std::byte> bytes) {
    uint32_t crc = 0;
    while (!bytes.empty()) {
      const auto block = bytes.first(std::min(bytes.size(), kBlockBytes));
      crc = ExtendCrc32c(crc, block);  // while it comes into the cache, where the write finds it
      SHOAL_RETURN_IF_ERROR(AppendBlock(block));
      bytes = bytes.subspan(block.size());
    }
    return crc;
  }

  Status Flush() {
    SHOAL_RETURN_IF_ERROR(file_->WriteAt(offset_, buffer_));
    offset_ += static_cast<int64_t>(buffer_.size());
    buffer_.clear();
    return Status();
  }

  // Where the next byte goes.
  int64_t offset_bytes() const { return offset_ + static_cast<int64_t>(buffer_.size()); }

 private:
  Status AppendBlock(std::span<const std::byte> block) {
    if (buffer_.size() + block.size() > kBlockBytes) SHOAL_RETURN_IF_ERROR(Flush());
    if (block.size() < kBlockBytes) {
      buffer_.insert(buffer_.end(), block.begin(), block.end());
      return Status();
    }
    SHOAL_RETURN_IF_ERROR(file_->WriteAt(offset_, block));
    offset_ += static_cast<int64_t>(block.size());
    return Status();
  }

  io::File* const file_;
  std::vector<std::byte> buffer_;
  int64_t offset_ = 0;  // of the file, where the buffer goes
};

// Where and with which checksum pieces were written, by piece.
using Places = std::map<const PieceToWrite*, PieceRecord>;

Result<Places> WritePieces(io::File& file, const std::string& header,
                           const std::vector<const PieceToWrite*>& pieces) {
  Appender appender(&file);
  SHOAL_RETURN_IF_ERROR(appender.Append(std::as_bytes(std::span(header))).status());
  Places places;
  for (const PieceToWrite* piece : pieces) {
    PieceRecord record{.offset_bytes = appender.offset_bytes(),
                       .flat_begin = piece->flat_begin,
                       .flat_end = piece->flat_end};
    SHOAL_ASSIGN_OR_RETURN(record.crc32c, appender.Append(BytesOf(*piece)));
    places.emplace(piece, record);
  }
  SHOAL_RETURN_IF_ERROR(appender.Flush());
  return places;
}

// One record per tensor and role, in the order in which `pieces` names them first.
std::vector<TensorRecord> GroupByTensor(std::span<const PieceToWrite> pieces,
                                        const Places& places) {
  std::vector<TensorRecord> tensors;
  std::map<std::pair<std::string, std::string>, size_t> index;
  for (const PieceToWrite& piece : pieces) {
    const auto [known, is_new] = index.try_emplace({piece.tensor, piece.role}, tensors.size());
    if (is_new) tensors.push_back(RecordOf(piece));
    const auto place = places.find(&piece);
    if (place != places.end()) tensors[known->second].pieces.push_back(place->second);
  }
  return tensors;
}

Status CheckSpace(io::Storage& storage, const std::string& dir, int64_t needed_bytes) {
  SHOAL_ASSIGN_OR_RETURN(const int64_t free_bytes, storage.FreeBytes(dir));
  if (free_bytes >= needed_bytes) return Status();
  return Status::IoError("save", fmt::format("no space left in \"{}\": bytes needed: {}, free: {}",
                                             dir, needed_bytes, free_bytes));
}

Result<std::string> WriteInto(io::Storage& storage, const std::string& path, FileRecord file_record,
                              std::span<const PieceToWrite> pieces) {
  const std::vector<const PieceToWrite*> order = StorageOrder(pieces);
  const SafetensorsHeader header = HeaderOf(order, file_record.rank);
  SHOAL_ASSIGN_OR_RETURN(const std::string header_text, SafetensorsHeaderToText(header));
  file_record.header_bytes = static_cast<int64_t>(header_text.size());
  file_record.header_crc32c = Crc32c(std::as_bytes(std::span(header_text)));
  file_record.size_bytes =
      file_record.header_bytes + (header.entries.empty() ? 0 : header.entries.back().end_bytes);
  const std::string dir = io::ParentDir(path);
  SHOAL_RETURN_IF_ERROR(CheckSpace(storage, dir, file_record.size_bytes));
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file, storage.Create(path));
  SHOAL_ASSIGN_OR_RETURN(const Places places, WritePieces(*file, header_text, order));
  SHOAL_RETURN_IF_ERROR(file->Sync());
  SHOAL_RETURN_IF_ERROR(storage.SyncDir(dir));
  return RankRecordsToText({std::move(file_record), GroupByTensor(pieces, places)});
}

}  // namespace

Result<std::string> WriteRankFile(io::Storage& storage, const std::string& tmp_dir, int64_t rank,
                                  std::span<const PieceToWrite> pieces,
                                  const std::string& state_json) {
  if (rank < 0) {
    return Status::InvalidArgument("save", fmt::format("rank is {}, must be >= 0", rank));
  }
  if (!Json::accept(state_json)) {
    return Status::InvalidArgument("save", fmt::format("state of rank {} is not JSON", rank));
  }
  for (const PieceToWrite& piece : pieces) SHOAL_RETURN_IF_ERROR(CheckPiece(piece));
  FileRecord record{.name = RankFileName(rank), .rank = rank, .state_json = state_json};
  const std::string path = io::JoinPath(tmp_dir, record.name);
  Result<std::string> result = WriteInto(storage, path, std::move(record), pieces);
  if (result.ok()) return result;
  // Gives the space back at once; if this fails too, rank 0's Abort or the next save removes it.
  (void)storage.RemoveFile(path);
  return result.status().WithContext(fmt::format("rank {} writing \"{}\"", rank, path));
}

}  // namespace shoal::ckpt
