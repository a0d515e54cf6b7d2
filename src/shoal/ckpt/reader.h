// Reader: any range of elements of any tensor of a checkpoint.
//
// A piece's checksum is checked before any of its elements is handed out; where a range covers only
// part of a piece, the whole piece is read once for that. Errors name file, tensor and rank.
//
// Thread-safety: const functions may be called from several threads. The Storage is borrowed and
// must outlive the object.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/ckpt/manifest.h"
#include "shoal/io/storage.h"

namespace shoal::ckpt {

class Reader {
 public:
  // Opens the checkpoint directory `dir` (not the root of several) and checks its index.
  static Result<std::unique_ptr<Reader>> Open(io::Storage& storage, const std::string& dir);

  const std::string& dir() const { return dir_; }
  const Manifest& manifest() const { return manifest_; }

  // The tensor's record; aliases are followed. Null if there is none.
  const TensorRecord* Find(std::string_view tensor, std::string_view role) const;

  // Copies elements [flat_begin, flat_end) to `dst`, which must have their size in bytes. NotFound
  // if there is no such tensor; InvalidArgument for a bad range; Corruption for a damaged piece.
  Status ReadRange(std::string_view tensor, std::string_view role, int64_t flat_begin,
                   int64_t flat_end, std::span<std::byte> dst) const;

  // Reads everything: every file's size and header, every piece's checksum. The first fault.
  Status Verify() const;

 private:
  struct OpenFile {
    std::mutex mutex;  // held while opening
    std::unique_ptr<io::File> file;
  };

  Reader(io::Storage& storage, std::string dir, Manifest manifest);

  Result<const io::File*> FileOf(int64_t index) const;
  Status ReadPiece(const TensorRecord& tensor, const PieceRecord& piece, int64_t piece_number,
                   int64_t flat_begin, std::span<std::byte> dst) const;
  Status VerifyHeader(int64_t index) const;
  std::string Describe(const TensorRecord& tensor, const PieceRecord& piece) const;

  io::Storage& storage_;
  const std::string dir_;
  const Manifest manifest_;
  // Role and name to position in manifest_.tensors.
  std::map<std::pair<std::string, std::string>, int64_t, std::less<>> index_;
  std::vector<int64_t> first_piece_;                 // per tensor, number of its first piece
  std::unique_ptr<std::atomic<bool>[]> is_checked_;  // per piece
  mutable std::vector<OpenFile> files_;
};

}  // namespace shoal::ckpt
