// Compose: a shard of a shard, as a shard of the tensor.
//
// A shard stores a tensor of its own: the box, with the box' shape, if it is its whole box; else
// one dim of numel() elements. `inner` is a shard of that tensor: so a ZeRO range inside a
// tensor-parallel box, or a part of a ZeRO range.
//
// Thread-safety: pure functions.
#pragma once

#include "shoal/base/status.h"
#include "shoal/layout/shard.h"

namespace shoal::layout {

// @post element k of the result's storage is element k of inner's storage in outer's storage.
// @post Compose(Compose(a, b), c) == Compose(a, Compose(b, c)) where both exist.
// InvalidArgument if `inner` is not inside the tensor that `outer` stores.
Result<Shard> Compose(const Shard& outer, const Shard& inner);

}  // namespace shoal::layout
