#include "shoal/torch/engine/build.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/plan/arena_plan.h"
#include "shoal/plan/unit_packer.h"
#include "shoal/torch/dtype.h"
#include "shoal/torch/status_error.h"

namespace shoal::engine {
namespace {

constexpr int64_t kStagingAlignment = 16;

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void CheckParam(const ParamDef& def, at::Device expected) {
  const at::Tensor& tensor = def.tensor;
  const std::string who = "parameter '" + def.name + "'";
  if (tensor.is_meta()) {
    Throw(
        Status::Unsupported("engine", who + " is on the meta device; materialise the model first"));
  }
  if (tensor.layout() != at::kStrided || !tensor.has_storage()) {
    Throw(Status::Unsupported("engine", who + " has no dense storage (sparse, DTensor or a wrapper "
                                              "subclass)"));
  }
  if (!tensor.is_leaf()) {
    Throw(Status::InvalidArgument("engine", who + " is not a leaf of autograd's graph"));
  }
  if (tensor.is_inference()) {
    Throw(Status::InvalidArgument("engine", who + " was made in inference mode"));
  }
  if (tensor.device() != expected) {
    Throw(Status::InvalidArgument("engine", who + " is on " + tensor.device().str() +
                                                ", others are on " + expected.str() +
                                                ": all parameters must be on one device"));
  }
  if (tensor.requires_grad() && !IsRealFloat(FromTorch(tensor.scalar_type()))) {
    Throw(Status::Unsupported("engine", who + " requires grad and is " +
                                            std::string(c10::toString(tensor.scalar_type())) +
                                            "; trained parameters must be real floating point"));
  }
}

// No streams here: where a toolchain links parts of libstdc++ statically, a stream of ours and the
// locale of torch's do not fit together (seen with torch 2.11 on a GPU host).
std::string Describe(const ParamDef& def) {
  std::string text = def.name + " shape=[";
  for (int64_t dim = 0; dim < def.tensor.dim(); ++dim) {
    text += (dim == 0 ? "" : ", ") + std::to_string(def.tensor.size(dim));
  }
  text += std::string("] dtype=") + c10::toString(def.tensor.scalar_type()) +
          (def.tensor.requires_grad() ? " trained" : " frozen");
  for (const std::string& alias : def.aliases) text += " =" + alias;
  return text;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// Every rank's model, line by line; the first difference is named with both ranks.
void CompareModels(const std::vector<UnitDef>& units, const std::string& settings,
                   comm::Collectives& collectives) {
  std::string own = settings + "\n";
  for (const UnitDef& unit : units) {
    for (const ParamDef& def : unit.params)
      own += "unit '" + unit.name + "': " + Describe(def) + "\n";
  }
  const std::vector<std::string> all = collectives.AllGatherText(own);
  for (size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    std::vector<std::string> first = Lines(all[0]);
    std::vector<std::string> other = Lines(all[r]);
    const size_t longest = std::max(first.size(), other.size());
    first.resize(longest, "(nothing more)");
    other.resize(longest, "(nothing more)");
    const auto differs = std::mismatch(first.begin(), first.end(), other.begin());
    Throw(Status::InvalidArgument("engine",
                                  "ranks built different models or settings; first "
                                  "difference: rank 0 has [" +
                                      *differs.first + "], rank " + std::to_string(r) + " has [" +
                                      *differs.second + "]"));
  }
}

at::ScalarType ComputeType(const at::Tensor& tensor, const Options& options) {
  return IsRealFloat(FromTorch(tensor.scalar_type())) ? options.compute_dtype
                                                      : tensor.scalar_type();
}

plan::UnitLayout Pack(const UnitDef& def, const Options& options, int64_t num_ranks) {
  std::vector<plan::ParamSpec> specs;
  specs.reserve(def.params.size());
  for (const ParamDef& param : def.params) {
    specs.push_back({param.name, param.tensor.numel(),
                     FromTorch(ComputeType(param.tensor, options)), param.tensor.requires_grad()});
  }
  plan::PackOptions pack;
  pack.num_ranks = num_ranks;
  return ValueOrThrow(plan::PackUnit(specs, pack));
}

// The unit's values in their original dtypes on the engine's device, equal on all ranks: one
// buffer, one broadcast.
std::vector<at::Tensor> StageValues(const Unit& unit, at::Device device,
                                    comm::Collectives& collectives) {
  int64_t bytes = 0;
  std::vector<int64_t> offsets;
  for (const Param& param : unit.params) {
    offsets.push_back(bytes);
    bytes += RoundUp(static_cast<int64_t>(param.tensor.nbytes()), kStagingAlignment);
  }
  const at::Tensor staging =
      at::empty({bytes}, at::TensorOptions().device(device).dtype(at::kByte));
  std::vector<at::Tensor> values;
  for (size_t i = 0; i < unit.params.size(); ++i) {
    const Param& param = unit.params[i];
    const at::Tensor flat =
        TypedView(staging, offsets[i], param.tensor.numel(), param.tensor.scalar_type());
    at::Tensor view = flat.as_strided(param.sizes, param.strides, flat.storage_offset());
    view.copy_(param.tensor.detach());
    values.push_back(flat);
  }
  if (bytes > 0) collectives.Broadcast(staging, 0, {&unit.name, 0});
  return values;
}

void FillBuffer(const Unit& unit, const std::vector<at::Tensor>& values, const at::Tensor& full) {
  full.zero_();
  for (size_t i = 0; i < unit.params.size(); ++i) {
    const Param& param = unit.params[i];
    const plan::Segment& segment = unit.layout.segments[static_cast<size_t>(param.slice.segment)];
    TypedView(full, param.slice.offset_bytes, param.slice.numel, ToTorch(segment.dtype))
        .copy_(values[i]);
  }
}

// Pieces, masters and gradient pieces of one unit; fills them from `values`.
void MakePieces(Unit& unit, const std::vector<at::Tensor>& values, const Options& options,
                int64_t piece_index) {
  const at::Device device = options.device;
  const at::ScalarType grad_dtype =
      options.accumulation > 1 ? options.accumulate_dtype : options.reduce_dtype;
  at::Tensor full =
      at::empty({unit.layout.total_bytes}, at::TensorOptions().device(device).dtype(at::kByte));
  FillBuffer(unit, values, full);
  int64_t piece_bytes = 0;
  for (const plan::Segment& segment : unit.layout.segments) {
    piece_bytes += segment.piece_numel * DTypeBytes(segment.dtype);
  }
  if (options.zero_stage == 3) {
    unit.piece_storage =
        at::empty({piece_bytes}, at::TensorOptions().device(device).dtype(at::kByte));
  } else {
    unit.resident = full;
  }
  int64_t offset = 0;
  for (const plan::Segment& segment : unit.layout.segments) {
    const int64_t bytes = segment.piece_numel * DTypeBytes(segment.dtype);
    const at::Tensor own = TypedView(full, segment.offset_bytes + piece_index * bytes,
                                     segment.piece_numel, ToTorch(segment.dtype));
    Piece& piece = unit.pieces.emplace_back();
    if (options.zero_stage == 3) {
      piece.compute = TypedView(unit.piece_storage, offset, segment.piece_numel, own.scalar_type());
      piece.compute.copy_(own);
    } else {
      piece.compute = own;
    }
    offset += bytes;
    if (!segment.trainable || options.groups.empty()) continue;
    piece.master =
        options.master_dtype == own.scalar_type()
            ? piece.compute
            : at::zeros({segment.piece_numel}, own.options().dtype(options.master_dtype));
    if (options.zero_stage != 0) {
      piece.grad = at::zeros({segment.piece_numel}, own.options().dtype(grad_dtype));
    }
  }
  for (size_t i = 0; i < unit.params.size(); ++i) {
    const Param& param = unit.params[i];
    Piece& piece = unit.pieces[static_cast<size_t>(param.slice.segment)];
    if (!piece.master.defined() || piece.master.is_same(piece.compute)) continue;
    const LocalRange range = RangeOf(unit, param, piece_index);
    piece.master.narrow(0, range.offset, range.numel)
        .copy_(values[i].narrow(0, range.flat_begin, range.numel));
  }
}

std::unique_ptr<Unit> MakeUnit(const UnitDef& def, const Options& options, int64_t num_ranks) {
  auto unit = std::make_unique<Unit>();
  unit->name = def.name;
  unit->layout = Pack(def, options, num_ranks);
  for (size_t i = 0; i < def.params.size(); ++i) {
    const ParamDef& source = def.params[i];
    Param param;
    param.name = source.name;
    param.aliases = source.aliases;
    param.tensor = source.tensor;
    param.slice = unit->layout.slices[i];
    const std::string who = "parameter '" + source.name + "' of unit '" + def.name + "' is ";
    param.sharded_message = who + "sharded; use engine.unsharded(...)";
    param.updating_message =
        who + "being updated; it is readable in the next forward or in engine.unsharded(...)";
    param.trainable = source.tensor.requires_grad();
    param.group = source.group;
    param.sizes = source.tensor.sizes().vec();
    const bool dense = source.tensor.is_non_overlapping_and_dense();
    param.strides = dense ? source.tensor.strides().vec()
                          : at::empty_strided(param.sizes, source.tensor.contiguous().strides(),
                                              at::TensorOptions().device(at::kMeta))
                                .strides()
                                .vec();
    if (param.trainable) ++unit->num_trainable;
    unit->params.push_back(std::move(param));
  }
  unit->grad_offsets = plan::GradientOffsets(unit->layout, FromTorch(options.reduce_dtype));
  unit->grad_bytes = plan::GradientBytes(unit->layout, FromTorch(options.reduce_dtype));
  return unit;
}

std::string DescribeOptions(const Options& options, size_t num_buffers) {
  return "settings: stage " + std::to_string(options.zero_stage) + ", compute " +
         c10::toString(options.compute_dtype) + ", master " + c10::toString(options.master_dtype) +
         ", reduce " + c10::toString(options.reduce_dtype) + ", accumulation " +
         std::to_string(options.accumulation) + ", clip " + std::to_string(options.clip) + ", " +
         std::to_string(options.groups.size()) + " parameter groups, " +
         std::to_string(num_buffers) + " buffers";
}

// A buffer as it will be: on the engine's device, equal on all ranks, in the compute dtype if
// floating.
at::Tensor PrepareBuffer(const at::Tensor& buffer, const Options& options,
                         comm::Collectives& collectives) {
  at::Tensor value = buffer.detach().to(options.device).contiguous().clone();
  if (value.numel() > 0) {
    collectives.Broadcast(
        TypedView(value.view({-1}), 0, static_cast<int64_t>(value.nbytes()), at::kByte), 0, {});
  }
  const bool floating = IsRealFloat(FromTorch(buffer.scalar_type()));
  return floating ? value.to(options.compute_dtype) : value;
}

}  // namespace

Prepared Prepare(const Options& options, const std::vector<UnitDef>& units,
                 const std::vector<at::Tensor>& buffers, comm::Collectives& collectives) {
  const at::NoGradGuard no_grad;
  const ParamDef* first = nullptr;
  for (const UnitDef& def : units) {
    for (const ParamDef& param : def.params) {
      if (first == nullptr) first = &param;
      CheckParam(param, first->tensor.device());
    }
  }
  if (first == nullptr) Throw(Status::InvalidArgument("engine", "the model has no parameters"));
  CompareModels(units, DescribeOptions(options, buffers.size()), collectives);

  Prepared prepared;
  const bool replicated = options.zero_stage == 0;
  const int64_t num_ranks = replicated ? 1 : collectives.size();
  const int64_t piece_index = replicated ? 0 : collectives.rank();
  for (const UnitDef& def : units) {
    std::unique_ptr<Unit> unit = MakeUnit(def, options, num_ranks);
    unit->id = static_cast<int64_t>(prepared.units.size());
    unit->scratch_bytes = replicated ? 0 : collectives.ReduceScratchBytes(unit->grad_bytes);
    unit->padding_key = unit.get();
    for (const auto& other : prepared.units) {
      if (other->layout == unit->layout) unit->padding_key = other->padding_key;
    }
    for (Param& param : unit->params) {
      if (param.trainable) param.index = prepared.num_trainable++;
    }
    MakePieces(*unit, StageValues(*unit, options.device, collectives), options, piece_index);
    prepared.units.push_back(std::move(unit));
  }
  for (const at::Tensor& buffer : buffers) {
    prepared.buffers.push_back(buffer);
    prepared.new_buffers.push_back(PrepareBuffer(buffer, options, collectives));
  }
  return prepared;
}

void Install(const Options& options, Prepared& prepared) {
  const at::NoGradGuard no_grad;
  for (const auto& unit : prepared.units) {
    for (Param& param : unit->params) {
      const plan::Segment& segment =
          unit->layout.segments[static_cast<size_t>(param.slice.segment)];
      param.storage =
          c10::Storage(c10::Storage::use_byte_size_t(),
                       static_cast<size_t>(param.slice.numel * DTypeBytes(segment.dtype)),
                       c10::DataPtr(nullptr, options.device), nullptr, false);
      at::Tensor view =
          at::empty({0}, at::TensorOptions().device(options.device).dtype(ToTorch(segment.dtype)));
      view.set_(param.storage, 0, param.sizes, param.strides);
      param.tensor.mutable_grad().reset();
      param.tensor.set_data(view);
    }
    if (options.zero_stage == 3) {
      DetachUnit(*unit);
      unit->residency = Residency::kSharded;
    } else {
      AttachUnitOwned(*unit, unit->resident);
    }
  }
  for (size_t i = 0; i < prepared.buffers.size(); ++i)
    prepared.buffers[i].set_data(prepared.new_buffers[i]);
}

}  // namespace shoal::engine
