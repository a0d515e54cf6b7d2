// One rank's part of a save: its pieces, written to one safetensors file.
//
// Memory: a buffer of 4 MiB besides the header, whatever the size of the pieces.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/io/storage.h"

namespace shoal::ckpt {

// Elements [flat_begin, flat_end) of a tensor in this process' memory. May be empty: then it only
// says that the tensor exists.
struct PieceToWrite {
  std::string tensor;
  std::string role;  // [a-z0-9_]+
  DType dtype = DType::kFloat32;
  std::vector<int64_t> global_shape;
  std::vector<int64_t> dim_order;  // see TensorRecord
  int64_t flat_begin = 0;
  int64_t flat_end = 0;
  const void* data = nullptr;  // borrowed; (flat_end - flat_begin) x size of dtype bytes
};

// Writes `tmp_dir`/rank-NNNNN.safetensors durably and returns the records for rank 0, as text. The
// memory of `pieces` must not change meanwhile. `state_json` is JSON text of this rank's own state.
// On failure the file is removed as far as that works. InvalidArgument for a bad piece, naming it;
// IoError when the disk is full, with bytes needed and free.
Result<std::string> WriteRankFile(io::Storage& storage, const std::string& tmp_dir, int64_t rank,
                                  std::span<const PieceToWrite> pieces,
                                  const std::string& state_json);

}  // namespace shoal::ckpt
