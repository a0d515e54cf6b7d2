// From the configuration to the engine's options.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shoal/config/config.h"
#include "shoal/torch/engine/options.h"

namespace shoal::engine {

// `groups`: one map per parameter group with the hyper-parameters that differ from the
// configuration's optimizer section (names as there: "lr", "weight_decay", "beta1", "beta2", "eps",
// "momentum", "dampening"); ignored without an optimizer. Throws InvalidArgument for an unknown
// name.
Options OptionsFromConfig(const config::Config& config, at::Device device, int64_t accumulation,
                          const std::vector<std::map<std::string, double>>& groups);

}  // namespace shoal::engine
