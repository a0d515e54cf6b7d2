// Helpers of the room's tests: tensors with known values, saved by several "ranks" of one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/ckpt/manifest.h"
#include "shoal/ckpt/rank_file.h"
#include "shoal/ckpt/reader.h"
#include "shoal/ckpt/saving.h"
#include "shoal/io/storage.h"

namespace shoal::ckpt {

// A float32 tensor, cut into pieces at `cuts` (sorted element numbers), piece i belonging to rank
// i % num_ranks.
struct TestTensor {
  std::string name;
  std::string role;
  std::vector<int64_t> shape;
  std::vector<float> values;
  std::vector<int64_t> cuts;
};

// `numel` values beginning with `first`.
inline TestTensor MakeTensor(std::string name, int64_t numel, float first,
                             std::vector<int64_t> cuts) {
  TestTensor tensor{std::move(name), "param", {numel}, {}, std::move(cuts)};
  tensor.values.resize(static_cast<size_t>(numel));
  std::iota(tensor.values.begin(), tensor.values.end(), first);
  return tensor;
}

inline std::vector<PieceToWrite> PiecesOfRank(const std::vector<TestTensor>& tensors, int64_t rank,
                                              int64_t num_ranks) {
  std::vector<PieceToWrite> pieces;
  for (const TestTensor& tensor : tensors) {
    std::vector<int64_t> bounds = {0};
    bounds.insert(bounds.end(), tensor.cuts.begin(), tensor.cuts.end());
    bounds.push_back(static_cast<int64_t>(tensor.values.size()));
    for (size_t i = 0; i + 1 < bounds.size(); ++i) {
      if (static_cast<int64_t>(i) % num_ranks != rank) continue;
      pieces.push_back({.tensor = tensor.name,
                        .role = tensor.role,
                        .dtype = DType::kFloat32,
                        .global_shape = tensor.shape,
                        .dim_order = {},
                        .flat_begin = bounds[i],
                        .flat_end = bounds[i + 1],
                        .data = tensor.values.data() + bounds[i]});
    }
  }
  return pieces;
}

inline RunInfo TestRun(int64_t world_size) {
  return {.shoal_version = "0.1.0",
          .torch_version = "2.13.0",
          .mesh = "dp=" + std::to_string(world_size),
          .zero_stage = 3,
          .world_size = world_size};
}

struct SaveOptions {
  int64_t num_ranks = 2;
  std::string save_id = "00000000000000aa";
  std::optional<int64_t> keep = std::nullopt;
};

// All of a save, the ranks one after the other.
inline Result<Committed> SaveAll(io::Storage& storage, const std::string& root, int64_t step,
                                 const std::vector<TestTensor>& tensors,
                                 const SaveOptions& options = {}) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Saving> saving,
                         Saving::Begin(storage, root, step, options.save_id));
  std::vector<std::string> records;
  for (int64_t rank = 0; rank < options.num_ranks; ++rank) {
    const auto pieces = PiecesOfRank(tensors, rank, options.num_ranks);
    SHOAL_ASSIGN_OR_RETURN(std::string record,
                           WriteRankFile(storage, saving->tmp_dir(), rank, pieces, "{}"));
    records.push_back(std::move(record));
  }
  return saving->Commit(TestRun(options.num_ranks), records, options.keep);
}

inline Result<std::vector<float>> ReadFloats(const Reader& reader, const std::string& tensor,
                                             int64_t begin, int64_t end,
                                             const std::string& role = "param") {
  std::vector<float> values(static_cast<size_t>(end - begin));
  SHOAL_RETURN_IF_ERROR(
      reader.ReadRange(tensor, role, begin, end, std::as_writable_bytes(std::span(values))));
  return values;
}

}  // namespace shoal::ckpt
