// Manifest: what index.json says (docs/formats/checkpoint.md): who wrote a checkpoint, and where
// each range of elements of each tensor lives.
//
// Offsets and sizes named *_bytes count bytes, others count elements of the flattened tensor.
// Thread-safety: values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"

namespace shoal::ckpt {

inline constexpr int64_t kFormatVersion = 1;

// Elements [flat_begin, flat_end) of a tensor, stored in order at `offset_bytes` of a file.
struct PieceRecord {
  int64_t file = 0;  // position in Manifest::files; in the records of one rank: always 0
  int64_t offset_bytes = 0;
  int64_t flat_begin = 0;
  int64_t flat_end = 0;
  uint32_t crc32c = 0;

  friend bool operator==(const PieceRecord&, const PieceRecord&) = default;
};

struct TensorRecord {
  std::string name;
  std::string role;  // "param", "master", "exp_avg", ...: [a-z0-9_]+
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;           // of the whole tensor
  std::vector<int64_t> dim_order = {};  // dims from slowest to fastest varying; empty: row-major
  std::vector<PieceRecord> pieces = {};

  // @pre the shape was checked (every Manifest that this room hands out is).
  int64_t numel() const;

  friend bool operator==(const TensorRecord&, const TensorRecord&) = default;
};

struct FileRecord {
  std::string name;
  int64_t rank = 0;
  int64_t size_bytes = 0;
  int64_t header_bytes = 0;
  uint32_t header_crc32c = 0;
  std::string state_json = "{}";  // of this rank only; kept byte for byte

  friend bool operator==(const FileRecord&, const FileRecord&) = default;
};

// What rank 0 tells about the run.
struct RunInfo {
  std::string shoal_version;
  std::string torch_version;
  std::string mesh;  // in Shoal's notation, "dp=2"
  int64_t zero_stage = 0;
  int64_t world_size = 1;
  std::map<std::string, std::string> aliases = {};  // tied name -> name under which it is stored
  std::string state_json = "{}";                    // shared by all ranks; kept byte for byte

  friend bool operator==(const RunInfo&, const RunInfo&) = default;
};

struct Manifest {
  int64_t step = 0;
  std::string save_id;
  RunInfo run;
  std::vector<FileRecord> files = {};      // in rank order
  std::vector<TensorRecord> tensors = {};  // no two with the same name and role

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// What one rank wrote. Pieces name file 0.
struct RankRecords {
  FileRecord file;
  std::vector<TensorRecord> tensors = {};

  friend bool operator==(const RankRecords&, const RankRecords&) = default;
};

// The number of elements. InvalidArgument if a size is negative or the bytes do not fit int64_t.
Result<int64_t> CheckedNumel(const std::vector<int64_t>& shape, DType dtype);

// The index's bytes. @pre CheckManifest is ok. InvalidArgument for text that is not UTF-8.
Result<std::string> ManifestToText(const Manifest& manifest);

// Parses and checks an index; `path` is for messages. Corruption names what is wrong; Unsupported
// for another format version.
Result<Manifest> ManifestFromText(std::string_view text, const std::string& path);

// The same for what ranks send to rank 0.
Result<std::string> RankRecordsToText(const RankRecords& records);
Result<RankRecords> RankRecordsFromText(std::string_view text);

// Puts the ranks' records (in rank order) together. InvalidArgument naming both ranks if they
// disagree about a tensor, or naming a tensor whose elements are missing or written twice.
Result<Manifest> MergeRecords(int64_t step, const std::string& save_id, const RunInfo& run,
                              std::vector<RankRecords> records);

// Every rule of the format: names, bounds, coverage, aliases. InvalidArgument names the first one
// broken.
Status CheckManifest(const Manifest& manifest);

}  // namespace shoal::ckpt
