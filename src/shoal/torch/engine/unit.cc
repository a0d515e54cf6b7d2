#include "shoal/torch/engine/unit.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/plan/unit_packer.h"
#include "shoal/torch/engine/storage_access.h"

namespace shoal::engine {

void AttachUnit(Unit& unit, void* base) {
  for (const Param& param : unit.params) {
    AttachData(*param.storage.unsafeGetStorageImpl(),
               static_cast<char*>(base) + param.slice.offset_bytes);
  }
}

void AttachUnitOwned(Unit& unit, const at::Tensor& buffer) {
  for (const Param& param : unit.params) {
    AttachOwned(*param.storage.unsafeGetStorageImpl(), buffer, param.slice.offset_bytes);
  }
}

void DetachUnit(Unit& unit) {
  for (const Param& param : unit.params) {
    DetachData(*param.storage.unsafeGetStorageImpl(), param.sharded_message);
  }
}

void ForbidUnit(Unit& unit) {
  for (const Param& param : unit.params) {
    ForbidAccess(*param.storage.unsafeGetStorageImpl(), param.updating_message);
  }
}

void AllowUnit(Unit& unit) {
  for (const Param& param : unit.params) AllowAccess(*param.storage.unsafeGetStorageImpl());
}

LocalRange RangeOf(const Unit& unit, const Param& param, int64_t piece_index) {
  const plan::Segment& segment = unit.layout.segments[static_cast<size_t>(param.slice.segment)];
  const int64_t piece_begin = piece_index * segment.piece_numel;
  const int64_t begin = std::max(param.slice.offset_elements, piece_begin);
  const int64_t end =
      std::min(param.slice.offset_elements + param.slice.numel, piece_begin + segment.piece_numel);
  if (begin >= end) return LocalRange{};
  return LocalRange{begin - piece_begin, begin - param.slice.offset_elements, end - begin};
}

at::Tensor TypedView(const at::Tensor& buffer, int64_t offset_bytes, int64_t numel,
                     at::ScalarType dtype) {
  const auto size = static_cast<int64_t>(c10::elementSize(dtype));
  const int64_t base = buffer.storage_offset() * static_cast<int64_t>(buffer.element_size());
  at::Tensor view = at::empty({0}, buffer.options().dtype(dtype));
  return view.set_(buffer.storage(), (base + offset_bytes) / size, {numel}, {1});
}

GradViews MakeGradViews(const Unit& unit, const std::vector<int64_t>& offsets,
                        const at::Tensor& buffer, at::ScalarType dtype) {
  GradViews views;
  views.buffer = buffer;
  for (size_t s = 0; s < unit.layout.segments.size(); ++s) {
    const int64_t offset = offsets[s];
    views.segments.push_back(offset < 0
                                 ? at::Tensor()
                                 : TypedView(buffer, offset, unit.layout.segments[s].numel, dtype));
  }
  for (const Param& param : unit.params) {
    if (!param.trainable) {
      views.params.emplace_back();
      continue;
    }
    const at::Tensor& segment = views.segments[static_cast<size_t>(param.slice.segment)];
    views.params.push_back(segment.as_strided(
        param.sizes, param.strides, segment.storage_offset() + param.slice.offset_elements));
  }
  return views;
}

}  // namespace shoal::engine
