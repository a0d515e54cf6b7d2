#include "shoal/ckpt/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/ckpt/crc32c.h"
#include "shoal/ckpt/manifest.h"
#include "shoal/ckpt/manifest_internal.h"
#include "shoal/ckpt/names_internal.h"
#include "shoal/ckpt/safetensors.h"
#include "shoal/io/storage.h"
#include "shoal/io/tree.h"

namespace shoal::ckpt {
namespace {

constexpr int64_t kBlockBytes = int64_t{4} << 20;
constexpr int64_t kMaxIndexBytes = int64_t{4} << 30;

// The checksum of `size_bytes` from `offset`, copying bytes [dst_begin, dst_begin + dst.size()) of
// them, counted from `offset`, to `dst`.
Result<uint32_t> ReadWithChecksum(const io::File& file, int64_t offset, int64_t size_bytes,
                                  int64_t dst_begin, std::span<std::byte> dst) {
  const int64_t dst_end = dst_begin + static_cast<int64_t>(dst.size());
  std::vector<std::byte> buffer;
  uint32_t crc = 0;
  for (int64_t begin = 0; begin < size_bytes; begin += kBlockBytes) {
    const int64_t end = std::min(begin + kBlockBytes, size_bytes);
    const auto count = static_cast<size_t>(end - begin);
    std::span<std::byte> block;
    if (dst_begin <= begin && end <= dst_end) {
      block = dst.subspan(static_cast<size_t>(begin - dst_begin), count);
    } else {
      buffer.resize(count);
      block = buffer;
    }
    SHOAL_RETURN_IF_ERROR(file.ReadAt(offset + begin, block));
    crc = ExtendCrc32c(crc, block);
    const int64_t first = std::max(begin, dst_begin);
    const int64_t last = std::min(end, dst_end);
    if (block.data() == buffer.data() && first < last) {
      std::copy_n(block.begin() + (first - begin), last - first, dst.begin() + (first - dst_begin));
    }
  }
  return crc;
}

}  // namespace

Reader::Reader(io::Storage& storage, std::string dir, Manifest manifest)
    : storage_(storage),
      dir_(std::move(dir)),
      manifest_(std::move(manifest)),
      files_(manifest_.files.size()) {
  int64_t num_pieces = 0;
  for (size_t i = 0; i < manifest_.tensors.size(); ++i) {
    const TensorRecord& tensor = manifest_.tensors[i];
    index_.emplace(std::pair(tensor.role, tensor.name), static_cast<int64_t>(i));
    first_piece_.push_back(num_pieces);
    num_pieces += static_cast<int64_t>(tensor.pieces.size());
  }
  is_checked_ = std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(num_pieces));
}

Result<std::unique_ptr<Reader>> Reader::Open(io::Storage& storage, const std::string& dir) {
  const std::string path = io::JoinPath(dir, kIndexName);
  const Result<std::string> text = io::ReadText(storage, path, kMaxIndexBytes);
  if (!text.ok()) {
    return text.status().WithContext(fmt::format("opening checkpoint \"{}\"", dir));
  }
  SHOAL_ASSIGN_OR_RETURN(Manifest manifest, ManifestFromText(*text, path));
  return std::unique_ptr<Reader>(new Reader(storage, dir, std::move(manifest)));
}

const TensorRecord* Reader::Find(std::string_view tensor, std::string_view role) const {
  const auto alias = manifest_.run.aliases.find(std::string(tensor));
  if (alias != manifest_.run.aliases.end()) tensor = alias->second;
  const auto found = index_.find(std::pair(std::string(role), std::string(tensor)));
  if (found == index_.end()) return nullptr;
  return &manifest_.tensors[static_cast<size_t>(found->second)];
}

Result<const io::File*> Reader::FileOf(int64_t index) const {
  OpenFile& open = files_[static_cast<size_t>(index)];
  const std::lock_guard guard(open.mutex);
  if (open.file != nullptr) return static_cast<const io::File*>(open.file.get());
  const FileRecord& record = manifest_.files[static_cast<size_t>(index)];
  const std::string path = io::JoinPath(dir_, record.name);
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file, storage_.OpenToRead(path));
  SHOAL_ASSIGN_OR_RETURN(const int64_t size_bytes, file->SizeBytes());
  if (size_bytes != record.size_bytes) {
    return Status::Corruption(
        "load", fmt::format("\"{}\", written by rank {}, has {} bytes, not {}", path, record.rank,
                            size_bytes, record.size_bytes));
  }
  open.file = std::move(file);
  return static_cast<const io::File*>(open.file.get());
}

std::string Reader::Describe(const TensorRecord& tensor, const PieceRecord& piece) const {
  const FileRecord& file = manifest_.files[static_cast<size_t>(piece.file)];
  return fmt::format("elements [{}:{}] of {} in \"{}\", written by rank {}", piece.flat_begin,
                     piece.flat_end, ckpt::Describe(tensor), io::JoinPath(dir_, file.name),
                     file.rank);
}

Status Reader::ReadPiece(const TensorRecord& tensor, const PieceRecord& piece, int64_t piece_number,
                         int64_t flat_begin, std::span<std::byte> dst) const {
  const Result<const io::File*> file = FileOf(piece.file);
  if (!file.ok()) return file.status().WithContext(Describe(tensor, piece));
  const int64_t item_bytes = DTypeBytes(tensor.dtype);
  const int64_t piece_bytes = (piece.flat_end - piece.flat_begin) * item_bytes;
  const int64_t skip_bytes = (flat_begin - piece.flat_begin) * item_bytes;
  std::atomic<bool>& is_checked = is_checked_[static_cast<size_t>(piece_number)];
  const bool is_part = static_cast<int64_t>(dst.size()) < piece_bytes;
  if (is_part && is_checked.load(std::memory_order_acquire)) {
    return (*file)
        ->ReadAt(piece.offset_bytes + skip_bytes, dst)
        .WithContext(Describe(tensor, piece));
  }
  const Result<uint32_t> crc =
      ReadWithChecksum(**file, piece.offset_bytes, piece_bytes, skip_bytes, dst);
  if (!crc.ok()) return crc.status().WithContext(Describe(tensor, piece));
  if (*crc != piece.crc32c) {
    return Status::Corruption("load", fmt::format("{} are damaged: checksum {:08x}, must be {:08x}",
                                                  Describe(tensor, piece), *crc, piece.crc32c));
  }
  is_checked.store(true, std::memory_order_release);
  return Status();
}

Status Reader::ReadRange(std::string_view tensor, std::string_view role, int64_t flat_begin,
                         int64_t flat_end, std::span<std::byte> dst) const {
  const TensorRecord* record = Find(tensor, role);
  if (record == nullptr) {
    return Status::NotFound(
        "load", fmt::format("checkpoint \"{}\" has no tensor \"{}\" ({})", dir_, tensor, role));
  }
  const int64_t item_bytes = DTypeBytes(record->dtype);
  if (flat_begin < 0 || flat_end < flat_begin || flat_end > record->numel() ||
      static_cast<int64_t>(dst.size()) != (flat_end - flat_begin) * item_bytes) {
    return Status::InvalidArgument(
        "load", fmt::format("range [{}:{}] into {} bytes does not fit {} of {} {} elements",
                            flat_begin, flat_end, dst.size(), ckpt::Describe(*record),
                            record->numel(), DTypeName(record->dtype)));
  }
  // The last piece that begins at or before flat_begin.
  auto piece = std::upper_bound(
      record->pieces.begin(), record->pieces.end(), flat_begin,
      [](int64_t value, const PieceRecord& candidate) { return value < candidate.flat_begin; });
  if (piece != record->pieces.begin()) --piece;
  const int64_t first_piece = first_piece_[static_cast<size_t>(record - manifest_.tensors.data())];
  for (; piece != record->pieces.end() && flat_begin < flat_end; ++piece) {
    const int64_t end = std::min(piece->flat_end, flat_end);
    const auto bytes = static_cast<size_t>((end - flat_begin) * item_bytes);
    const int64_t number = first_piece + (piece - record->pieces.begin());
    SHOAL_RETURN_IF_ERROR(ReadPiece(*record, *piece, number, flat_begin, dst.first(bytes)));
    dst = dst.subspan(bytes);
    flat_begin = end;
  }
  return Status();
}

Status Reader::VerifyHeader(int64_t index) const {
  SHOAL_ASSIGN_OR_RETURN(const io::File* file, FileOf(index));
  const FileRecord& record = manifest_.files[static_cast<size_t>(index)];
  const std::string path = io::JoinPath(dir_, record.name);
  SHOAL_ASSIGN_OR_RETURN(const uint32_t crc,
                         ReadWithChecksum(*file, 0, record.header_bytes, 0, {}));
  if (crc != record.header_crc32c) {
    return Status::Corruption("verify", fmt::format("the header of \"{}\", written by rank {}, is "
                                                    "damaged: checksum {:08x}, must be {:08x}",
                                                    path, record.rank, crc, record.header_crc32c));
  }
  return ReadSafetensorsHeader(*file, path).status();
}

Status Reader::Verify() const {
  for (size_t i = 0; i < manifest_.files.size(); ++i) {
    SHOAL_RETURN_IF_ERROR(VerifyHeader(static_cast<int64_t>(i)));
  }
  for (size_t i = 0; i < manifest_.tensors.size(); ++i) {
    const TensorRecord& tensor = manifest_.tensors[i];
    for (const PieceRecord& piece : tensor.pieces) {
      const int64_t number = first_piece_[i] + (&piece - tensor.pieces.data());
      is_checked_[static_cast<size_t>(number)].store(false, std::memory_order_release);
      SHOAL_RETURN_IF_ERROR(ReadPiece(tensor, piece, number, piece.flat_begin, {}));
    }
  }
  return Status();
}

}  // namespace shoal::ckpt
