#include "shoal/ckpt/share.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/ckpt/rank_file.h"

namespace shoal::ckpt {
namespace {

constexpr int64_t kSplitBytes = int64_t{1} << 20;  // smaller pieces stay whole

// floor(total * part / parts) without overflow.
int64_t CutAt(int64_t total, int64_t part, int64_t parts) {
  return total / parts * part + total % parts * part / parts;
}

int64_t CeilDiv(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

PieceToWrite SubPiece(const PieceToWrite& piece, int64_t first, int64_t last) {
  PieceToWrite part = piece;
  part.flat_begin = piece.flat_begin + first;
  part.flat_end = piece.flat_begin + last;
  part.data = static_cast<const std::byte*>(piece.data) + first * DTypeBytes(piece.dtype);
  return part;
}

}  // namespace

std::vector<PieceToWrite> ShareOfReplicated(std::span<const PieceToWrite> replicated, int64_t rank,
                                            int64_t num_ranks) {
  int64_t total = 0;
  for (const PieceToWrite& piece : replicated) {
    total += (piece.flat_end - piece.flat_begin) * DTypeBytes(piece.dtype);
  }
  // All bytes in a row, cut into num_ranks equal parts; this rank's is [begin, end).
  const int64_t begin = CutAt(total, rank, num_ranks);
  const int64_t end = CutAt(total, rank + 1, num_ranks);
  std::vector<PieceToWrite> share;
  int64_t position = 0;
  for (const PieceToWrite& piece : replicated) {
    const int64_t numel = piece.flat_end - piece.flat_begin;
    const int64_t item_bytes = DTypeBytes(piece.dtype);
    const int64_t piece_bytes = numel * item_bytes;
    if (piece_bytes >= kSplitBytes) {
      const auto element_at = [&](int64_t cut) {
        return std::min(CeilDiv(std::max<int64_t>(cut - position, 0), item_bytes), numel);
      };
      const int64_t first = element_at(begin);
      const int64_t last = element_at(end);
      if (first < last) share.push_back(SubPiece(piece, first, last));
    } else if (piece_bytes == 0 ? rank == 0 : begin <= position && position < end) {
      share.push_back(piece);
    }
    position += piece_bytes;
  }
  return share;
}

}  // namespace shoal::ckpt
