// Covers: does every element live somewhere, as often as it should?
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "shoal/base/status.h"
#include "shoal/layout/layout.h"
#include "shoal/layout/shard.h"
#include "shoal/layout/tensor_spec.h"

namespace shoal::layout {

// Ok if every element of the tensor is in exactly `replicas` of the shards. Otherwise
// InvalidArgument naming the tensor and one element that is held too often or not often enough.
// @pre the shards are inside the tensor.
Status Covers(const TensorSpec& spec, std::span<const Shard> shards, int64_t replicas = 1);

// Ok if that holds for every tensor of the layout with its own number of replicas.
Status Covers(const Layout& layout);

}  // namespace shoal::layout
