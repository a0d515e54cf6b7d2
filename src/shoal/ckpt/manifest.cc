#include "shoal/ckpt/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/ckpt/manifest_internal.h"
#include "shoal/ckpt/names_internal.h"
#include "shoal/ckpt/safetensors.h"

namespace shoal::ckpt {
namespace {

Status Bad(std::string_view what) { return Status::InvalidArgument("check index", what); }

bool IsPermutation(std::vector<int64_t> order, size_t num_dims) {
  std::vector<int64_t> identity(num_dims);
  std::iota(identity.begin(), identity.end(), 0);
  std::sort(order.begin(), order.end());
  return order == identity;
}

Status CheckRun(const Manifest& manifest) {
  const RunInfo& run = manifest.run;
  if (manifest.step < 0) return Bad(fmt::format("step is {}, must be >= 0", manifest.step));
  if (!IsSaveId(manifest.save_id)) {
    return Bad(fmt::format("save_id \"{}\" must be 16 hexadecimal digits", manifest.save_id));
  }
  if (run.zero_stage < 0 || run.zero_stage > 3) {
    return Bad(fmt::format("zero_stage is {}, must be 0 to 3", run.zero_stage));
  }
  const auto num_files = static_cast<int64_t>(manifest.files.size());
  if (run.world_size < 1 || run.world_size != num_files) {
    return Bad(fmt::format("world_size is {}, but there are {} files", run.world_size, num_files));
  }
  for (int64_t rank = 0; rank < num_files; ++rank) {
    const FileRecord& file = manifest.files[static_cast<size_t>(rank)];
    if (file.rank != rank || file.name != RankFileName(rank)) {
      return Bad(fmt::format("file {} must be \"{}\" of rank {}, not \"{}\" of rank {}", rank,
                             RankFileName(rank), rank, file.name, file.rank));
    }
    if (file.header_bytes <= 0 || file.header_bytes % kHeaderAlignment != 0 ||
        file.header_bytes > file.size_bytes) {
      return Bad(fmt::format("\"{}\" has {} bytes and a header of {}", file.name, file.size_bytes,
                             file.header_bytes));
    }
  }
  return Status();
}

// Ok if the piece lies inside its file and has elements.
Status CheckPiece(const Manifest& manifest, const TensorRecord& tensor, const PieceRecord& piece) {
  if (piece.file < 0 || piece.file >= static_cast<int64_t>(manifest.files.size())) {
    return Bad(fmt::format("{}: file {} of {} does not exist", Describe(tensor), piece.file,
                           manifest.files.size()));
  }
  const FileRecord& file = manifest.files[static_cast<size_t>(piece.file)];
  const int64_t bytes = (piece.flat_end - piece.flat_begin) * DTypeBytes(tensor.dtype);
  if (piece.offset_bytes < file.header_bytes || bytes > file.size_bytes ||
      piece.offset_bytes > file.size_bytes - bytes) {
    return Bad(fmt::format("{}: {} bytes at offset {} are not in the data of \"{}\" ({} to {})",
                           Describe(tensor), bytes, piece.offset_bytes, file.name,
                           file.header_bytes, file.size_bytes));
  }
  return Status();
}

// Ok if the pieces, in their order, hold each element exactly once.
Status CheckCoverage(const Manifest& manifest, const TensorRecord& tensor) {
  int64_t end = 0;
  for (const PieceRecord& piece : tensor.pieces) {
    if (piece.flat_begin < end) {
      return Bad(fmt::format("{}: elements [{}:{}] are written twice", Describe(tensor),
                             piece.flat_begin, std::min(end, piece.flat_end)));
    }
    if (piece.flat_begin > end) {
      return Bad(fmt::format("{}: elements [{}:{}] are in no piece", Describe(tensor), end,
                             piece.flat_begin));
    }
    if (piece.flat_end <= piece.flat_begin || piece.flat_end > tensor.numel()) {
      return Bad(fmt::format("{}: piece [{}:{}] is empty or outside of {} elements",
                             Describe(tensor), piece.flat_begin, piece.flat_end, tensor.numel()));
    }
    SHOAL_RETURN_IF_ERROR(CheckPiece(manifest, tensor, piece));
    end = piece.flat_end;
  }
  if (end == tensor.numel()) return Status();
  return Bad(
      fmt::format("{}: elements [{}:{}] are in no piece", Describe(tensor), end, tensor.numel()));
}

// Ok if no two pieces share bytes of a file.
Status CheckDisjoint(const Manifest& manifest) {
  std::vector<std::tuple<int64_t, int64_t, int64_t>> spans;  // file, begin, end in bytes
  for (const TensorRecord& tensor : manifest.tensors) {
    for (const PieceRecord& piece : tensor.pieces) {
      const int64_t bytes = (piece.flat_end - piece.flat_begin) * DTypeBytes(tensor.dtype);
      spans.emplace_back(piece.file, piece.offset_bytes, piece.offset_bytes + bytes);
    }
  }
  std::sort(spans.begin(), spans.end());
  for (size_t i = 1; i < spans.size(); ++i) {
    const auto& [last_file, last_begin, last_end] = spans[i - 1];
    const auto& [file, begin, end] = spans[i];
    if (file == last_file && begin < last_end) {
      return Bad(fmt::format("two pieces overlap at byte {} of \"{}\"", begin,
                             manifest.files[static_cast<size_t>(file)].name));
    }
  }
  return Status();
}

Status CheckAliases(const Manifest& manifest) {
  std::set<std::string_view> names;
  for (const TensorRecord& tensor : manifest.tensors) names.insert(tensor.name);
  for (const auto& [alias, target] : manifest.run.aliases) {
    if (names.contains(alias)) {
      return Bad(fmt::format("\"{}\" is stored and also an alias of \"{}\"", alias, target));
    }
    if (!names.contains(target)) {
      return Bad(fmt::format("\"{}\" is an alias of \"{}\", which is not stored", alias, target));
    }
  }
  return Status();
}

}  // namespace

std::string Describe(const TensorRecord& tensor) {
  return fmt::format("tensor \"{}\" ({})", tensor.name, tensor.role);
}

Status CheckTensorRecord(const TensorRecord& tensor) {
  if (tensor.name.empty()) return Bad("a tensor has no name");
  if (tensor.role.empty() ||
      tensor.role.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos) {
    return Bad(fmt::format("tensor \"{}\": role \"{}\" must be of a-z, 0-9 and _", tensor.name,
                           tensor.role));
  }
  const Result<int64_t> numel = CheckedNumel(tensor.shape, tensor.dtype);
  if (!numel.ok()) return numel.status().WithContext(Describe(tensor));
  if (tensor.dim_order.empty() || IsPermutation(tensor.dim_order, tensor.shape.size())) {
    return Status();
  }
  return Bad(fmt::format("{}: dim_order [{}] is no order of {} dims", Describe(tensor),
                         fmt::join(tensor.dim_order, ","), tensor.shape.size()));
}

int64_t TensorRecord::numel() const {
  int64_t result = 1;
  for (const int64_t size : shape) result *= size;
  return result;
}

Result<int64_t> CheckedNumel(const std::vector<int64_t>& shape, DType dtype) {
  // Sizes other than zero must fit together, so that no order of multiplying overflows.
  int64_t bytes = DTypeBytes(dtype);
  bool is_empty = false;
  for (const int64_t size : shape) {
    if (size == 0) is_empty = true;
    if (size < 0 || (size > 0 && __builtin_mul_overflow(bytes, size, &bytes))) {
      return Bad(fmt::format("shape [{}] of {} is negative or too large", fmt::join(shape, ","),
                             DTypeName(dtype)));
    }
  }
  return is_empty ? 0 : bytes / DTypeBytes(dtype);
}

Status CheckManifest(const Manifest& manifest) {
  SHOAL_RETURN_IF_ERROR(CheckRun(manifest));
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const TensorRecord& tensor : manifest.tensors) {
    SHOAL_RETURN_IF_ERROR(CheckTensorRecord(tensor));
    if (!seen.emplace(tensor.name, tensor.role).second) {
      return Bad(fmt::format("{} appears twice", Describe(tensor)));
    }
    SHOAL_RETURN_IF_ERROR(CheckCoverage(manifest, tensor));
  }
  SHOAL_RETURN_IF_ERROR(CheckDisjoint(manifest));
  return CheckAliases(manifest);
}

Result<Manifest> MergeRecords(int64_t step, const std::string& save_id, const RunInfo& run,
                              std::vector<RankRecords> records) {
  Manifest manifest{.step = step, .save_id = save_id, .run = run};
  struct Seen {
    size_t index;
    int64_t rank;  // that named it first
  };
  std::map<std::pair<std::string, std::string>, Seen> seen;
  for (RankRecords& of_rank : records) {
    const auto file = static_cast<int64_t>(manifest.files.size());
    for (TensorRecord& tensor : of_rank.tensors) {
      for (PieceRecord& piece : tensor.pieces) piece.file = file;
      const auto [known, is_new] = seen.try_emplace(
          {tensor.name, tensor.role}, Seen{manifest.tensors.size(), of_rank.file.rank});
      if (is_new) {
        manifest.tensors.push_back(std::move(tensor));
        continue;
      }
      TensorRecord& merged = manifest.tensors[known->second.index];
      if (std::tie(merged.dtype, merged.shape, merged.dim_order) !=
          std::tie(tensor.dtype, tensor.shape, tensor.dim_order)) {
        return Bad(fmt::format("ranks {} and {} disagree about {}: {} [{}] and {} [{}]",
                               known->second.rank, of_rank.file.rank, Describe(tensor),
                               DTypeName(merged.dtype), fmt::join(merged.shape, ","),
                               DTypeName(tensor.dtype), fmt::join(tensor.shape, ",")));
      }
      merged.pieces.insert(merged.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
    }
    manifest.files.push_back(std::move(of_rank.file));
  }
  for (TensorRecord& tensor : manifest.tensors) {
    std::stable_sort(
        tensor.pieces.begin(), tensor.pieces.end(),
        [](const PieceRecord& a, const PieceRecord& b) { return a.flat_begin < b.flat_begin; });
  }
  SHOAL_RETURN_IF_ERROR(CheckManifest(manifest));
  return manifest;
}

}  // namespace shoal::ckpt
