// From the user's parameters to units: checks, comparison of ranks, packing, allocation, the first
// values.
//
// Two phases, so that a failed construction leaves the model as it was: Prepare allocates and fills
// everything beside the model; Install then swaps the parameters' data, which cannot fail.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/torch/comm/collectives.h"
#include "shoal/torch/engine/options.h"
#include "shoal/torch/engine/unit.h"

namespace shoal::engine {

struct Prepared {
  std::vector<std::unique_ptr<Unit>> units;
  int64_t num_trainable = 0;        // parameters
  std::vector<at::Tensor> buffers;  // the user's
  std::vector<at::Tensor>
      new_buffers;  // their values on the engine's device, floating ones in the compute dtype
};

// Collective. Rank 0's values win. Throws InvalidArgument (different devices, a non-leaf, ranks
// that built different models: the first difference with both ranks), Unsupported (meta, sparse,
// complex that is trained).
Prepared Prepare(const Options& options, const std::vector<UnitDef>& units,
                 const std::vector<at::Tensor>& buffers, comm::Collectives& collectives);

// Parameters now point at the units' storages; at stage 3 they are sharded.
void Install(const Options& options, Prepared& prepared);

}  // namespace shoal::engine
