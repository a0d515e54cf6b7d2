// Unit: the parameters that are gathered together (usually one transformer block), where their
// elements live on this rank, and what state they are in.
//
// [Note: a storage per parameter] Every parameter has a storage of its own, the size of its slice,
// so that the error of a sharded one names it and saving one weight does not write its unit. A swap
// is one pointer per parameter (~20 ns); views that autograd saved share the parameter's storage
// and follow it.
//
// Ownership: a unit shares the storages that the user's parameters point at, owns this rank's
// pieces, masters, optimizer state and gradient pieces, and borrows slots of the arena.
// Thread-safety: none; the engine's one-caller rule.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/plan/unit_packer.h"
#include "shoal/torch/comm/collectives.h"
#include "shoal/torch/engine/arena.h"

namespace shoal::engine {

// A parameter as the caller names it.
struct ParamDef {
  std::string name;                  // the first name in the model ("layers.0.mlp.weight")
  std::vector<std::string> aliases;  // other names of the same (tied) parameter
  at::Tensor tensor;                 // the user's parameter; keeps its identity
  int64_t group = 0;                 // index of its hyper-parameter group
};

struct UnitDef {
  std::string name;
  std::vector<ParamDef> params;
};

// Where the full parameters of a unit are.
enum class Residency {
  kSharded,    // Nowhere: data access raises.
  kGathering,  // A gather into a slot is in flight; data access still raises.
  kUnsharded,  // In a slot (stage 3) or in the unit's own buffer (stages 0-2).
};

// A parameter inside its unit.
struct Param {
  std::string name;
  std::vector<std::string> aliases;
  at::Tensor tensor;
  plan::Slice slice;
  bool trainable = false;
  int64_t group = 0;
  int64_t index = -1;     // among all trainable parameters of the engine; -1 if frozen
  int64_t updates = 0;    // optimizer updates that it has seen
  bool has_grad = false;  // got a gradient since the last step, on this rank
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // of the buffer's view: the parameter's own where dense
  c10::Storage storage;  // what `tensor` points at: this parameter's slice of the unit's buffer
  std::string sharded_message;   // raised by data access while the parameter is sharded
  std::string updating_message;  // and while the last step's result is being gathered
};

// This rank's part of a parameter: elements [flat_begin, flat_begin + numel) of its buffer order,
// at `offset` in the piece of its segment. numel may be 0.
struct LocalRange {
  int64_t offset = 0;
  int64_t flat_begin = 0;
  int64_t numel = 0;
};

// This rank's piece of one segment, and what is trained beside it. Tensors are 1-D of
// Segment::piece_numel elements.
struct Piece {
  at::Tensor compute;  // compute dtype; at stages 0-2 a view into the unit's buffer
  at::Tensor
      master;  // master dtype; the same tensor as `compute` when dtypes agree; undefined if frozen
  std::vector<at::Tensor> states;  // optimizer state, master dtype
  at::Tensor grad;  // reduced gradients, summed over ranks and micro-batches, not yet averaged
};

// A buffer being filled with a unit's unreduced gradients: views of it in the shape of each
// parameter.
struct GradViews {
  at::Tensor buffer;  // uint8
  std::vector<at::Tensor>
      segments;  // per segment, 1-D of Segment::numel in the reduce dtype; undefined if frozen
  std::vector<at::Tensor> params;  // per parameter; undefined if frozen
};

struct Unit {
  int64_t id = 0;
  std::string name;
  plan::UnitLayout layout;
  std::vector<Param> params;
  int64_t num_trainable = 0;

  at::Tensor resident;                // stages 0-2: the full buffer, uint8; undefined at stage 3
  at::Tensor piece_storage;           // stage 3: this rank's pieces, back to back, uint8
  std::vector<Piece> pieces;          // per segment
  std::vector<int64_t> grad_offsets;  // per segment, in a gradient buffer; -1 if frozen
  int64_t grad_bytes = 0;             // of a buffer of unreduced gradients
  int64_t scratch_bytes = 0;          // that the reduce-scatter wants beside it

  Residency residency = Residency::kUnsharded;
  std::unique_ptr<comm::Pending> gather;  // while kGathering
  int64_t gather_version = 0;             // of the shards that `gather` or the slot holds
  Slot* slot = nullptr;                   // while not kSharded at stage 3
  // What a gather into a slot moves, made before: the arena hands out the same few slots again.
  std::vector<std::pair<const Slot*, std::vector<comm::GatherBuffer>>> gather_buffers;
  int64_t forward_depth = 0;              // entry modules that are running
  bool hold = false;                      // stays unsharded (create_graph, unsharded())
  std::unique_ptr<comm::Pending> update;  // stages 1-2: the all-gather of the last step's result
  const void* padding_key = nullptr;      // equal for units whose buffers have the same padding

  bool trainable() const { return num_trainable > 0; }
};

// Lets the unit's parameters read and write `base`, a buffer in the unit's layout (borrowed).
void AttachUnit(Unit& unit, void* base);
// The same, and the parameters keep the buffer's memory alive: they outlive the engine.
void AttachUnitOwned(Unit& unit, const at::Tensor& buffer);
// Takes the data away: access raises each parameter's sharded_message.
void DetachUnit(Unit& unit);
// Keeps the pointers; access raises updating_message until AllowUnit.
void ForbidUnit(Unit& unit);
void AllowUnit(Unit& unit);

// This rank's part of params[i].
LocalRange RangeOf(const Unit& unit, const Param& param, int64_t piece_index);

// Views of `buffer` (uint8) for unit's gradients in `dtype`; `offsets`: in bytes, per segment, -1
// if frozen (plan::GradientOffsets of that dtype).
GradViews MakeGradViews(const Unit& unit, const std::vector<int64_t>& offsets,
                        const at::Tensor& buffer, at::ScalarType dtype);

// A typed 1-D view of bytes [offset, offset + numel * element size) of a uint8 buffer.
at::Tensor TypedView(const at::Tensor& buffer, int64_t offset_bytes, int64_t numel,
                     at::ScalarType dtype);

}  // namespace shoal::engine
