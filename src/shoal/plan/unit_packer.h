// PackUnit: where each parameter of a unit lies in the unit's one flat buffer.
//
// A unit is the parameters that are gathered together. Its buffer is a sequence of segments, one
// per (dtype, trainable) among the parameters, in the order in which these first appear. A segment
// is contiguous and cut into num_ranks equal pieces; rank r owns elements [r * piece_numel, (r + 1)
// * piece_numel) of it.
//
// [Note: what packing guarantees]
//  - every slice and every segment starts at a multiple of slice_alignment_bytes from the buffer's
//  start;
//  - slices do not overlap and lie inside their segment;
//  - a piece is a multiple of 64 bytes and of block_elements: with blocks counted from the
//  segment's start no
//    block lies on two ranks;
//  - parameters keep the given order inside a segment, except that one may move to its end where
//  that saves
//    bytes (only the last slice has no alignment gap after it, so nothing else about the order can
//    matter);
//  - the result depends on the arguments alone.
// Nothing need divide anything: fewer elements than ranks, 0-element parameters and more than 2^31
// elements work.
//
// Thread-safety: a pure function of values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"

namespace shoal::plan {

// Granularity of a rank's piece: one cache line, and what NCCL and vector loads like.
inline constexpr int64_t kPieceAlignmentBytes = 64;

// One parameter of a unit. `dtype` is the dtype in which the unit computes.
struct ParamSpec {
  std::string name;
  int64_t numel = 0;
  DType dtype = DType::kFloat32;
  bool trainable = true;
};

struct PackOptions {
  int64_t num_ranks = 1;                // ranks that share the unit, >= 1
  int64_t slice_alignment_bytes = 256;  // a power of two, >= 64
  int64_t block_elements = 1;           // block of an element-wise optimizer (8-bit states), >= 1
};

// Where one parameter lies.
struct Slice {
  int64_t segment = 0;          // index into UnitLayout::segments
  int64_t offset_bytes = 0;     // from the start of the unit's flat buffer
  int64_t offset_elements = 0;  // from the start of its segment
  int64_t numel = 0;

  friend bool operator==(const Slice&, const Slice&) = default;
};

struct Segment {
  DType dtype = DType::kFloat32;
  bool trainable = true;
  int64_t offset_bytes = 0;  // from the start of the unit's flat buffer
  int64_t numel = 0;         // with padding; num_ranks * piece_numel
  int64_t piece_numel = 0;   // elements per rank
  int64_t used_numel = 0;    // without padding: the sum over the parameters

  friend bool operator==(const Segment&, const Segment&) = default;
};

struct UnitLayout {
  std::vector<Segment> segments;
  std::vector<Slice> slices;  // one per ParamSpec, in the order of the input
  int64_t total_bytes = 0;    // of the flat buffer; a multiple of slice_alignment_bytes
  int64_t padding_bytes = 0;  // total_bytes less the bytes of the parameters

  friend bool operator==(const UnitLayout&, const UnitLayout&) = default;
};

// Packs `params` (may be empty: a layout of 0 bytes).
// InvalidArgument for options out of range, a negative numel, and sizes that overflow int64_t; also
// when padding exceeds 5 % of the buffer and is more than alignment alone can force
// (slice_alignment_bytes per slice and per segment, 64 bytes per rank and segment), which only
// block_elements can cause. The message gives the numbers.
Result<UnitLayout> PackUnit(std::span<const ParamSpec> params, const PackOptions& options);

}  // namespace shoal::plan
