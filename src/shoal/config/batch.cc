#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "shoal/base/status.h"
#include "shoal/config/config.h"

namespace shoal::config {
namespace {

// a x b, or the largest int64_t where that is too large. @pre both >= 0.
int64_t Multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

std::string Number(const std::optional<int64_t>& value) {
  return value ? fmt::format("{}", *value) : std::string("(not given)");
}

// The request and where to look for valid numbers near it.
struct Request {
  const Config& config;
  int64_t data_parallel;
  std::string_view origin;
};

std::string Triple(const BatchSizes& sizes, int64_t data_parallel) {
  return fmt::format("{} = {} x {} x {}", sizes.train_batch, sizes.micro_batch, sizes.accumulation,
                     data_parallel);
}

void AddCandidate(int64_t micro, int64_t accumulation, int64_t data_parallel,
                  std::vector<BatchSizes>* out) {
  if (micro < 1 || accumulation < 1) return;
  const int64_t train = Multiply(Multiply(micro, accumulation), data_parallel);
  if (train == std::numeric_limits<int64_t>::max()) return;
  for (const BatchSizes& known : *out) {
    if (known.micro_batch == micro && known.accumulation == accumulation) return;
  }
  out->push_back({train, micro, accumulation});
}

// Numbers near the request that multiply, those nearest to its train batch first, at most 3.
std::vector<BatchSizes> NearestTriples(const Request& request) {
  const Config& config = request.config;
  const int64_t dp = request.data_parallel;
  std::vector<BatchSizes> found;
  const int64_t micro = config.micro_batch_size.value_or(1);
  const int64_t steps = config.gradient_accumulation_steps.value_or(1);
  const int64_t train = config.train_batch_size.value_or(Multiply(Multiply(micro, steps), dp));
  const int64_t by_micro = train / Multiply(micro, dp);
  const int64_t by_steps = train / Multiply(steps, dp);
  if (config.micro_batch_size) {
    AddCandidate(micro, by_micro, dp, &found);
    AddCandidate(micro, by_micro + 1, dp, &found);
  }
  if (config.gradient_accumulation_steps || !config.micro_batch_size) {
    AddCandidate(by_steps, steps, dp, &found);
    AddCandidate(by_steps + 1, steps, dp, &found);
  }
  if (config.micro_batch_size) AddCandidate(micro, steps, dp, &found);
  const auto distance = [train](const BatchSizes& sizes) {
    return sizes.train_batch > train ? sizes.train_batch - train : train - sizes.train_batch;
  };
  std::stable_sort(found.begin(), found.end(), [&](const BatchSizes& a, const BatchSizes& b) {
    return distance(a) < distance(b);
  });
  if (found.size() > 3) found.resize(3);
  return found;
}

Status Contradiction(const Request& request) {
  const Config& config = request.config;
  std::string text = fmt::format(
      "{}: train_batch_size {} must be train_micro_batch_size_per_gpu {} x "
      "gradient_accumulation_steps {} x data-parallel size {} (from {})",
      config.source, Number(config.train_batch_size), Number(config.micro_batch_size),
      Number(config.gradient_accumulation_steps), request.data_parallel, request.origin);
  const std::vector<BatchSizes> near = NearestTriples(request);
  for (size_t i = 0; i < near.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "; nearest valid: " : ", ",
                        Triple(near[i], request.data_parallel));
  }
  const int64_t per_rank =
      Multiply(config.micro_batch_size.value_or(1), config.gradient_accumulation_steps.value_or(1));
  const int64_t train = config.train_batch_size.value_or(0);
  const bool all_given = config.micro_batch_size && config.gradient_accumulation_steps;
  if (all_given && train > 0 && train % per_rank == 0) {
    text += fmt::format("; these numbers fit data-parallel size {}", train / per_rank);
  }
  return Status::InvalidArgument("config", text);
}

// The number x for which x * divisor == train, if there is one.
std::optional<int64_t> Divide(int64_t train, int64_t divisor) {
  if (train % divisor != 0) return std::nullopt;
  return train / divisor;
}

Result<BatchSizes> FromTrainBatch(const Request& request) {
  const Config& config = request.config;
  const int64_t train = *config.train_batch_size;
  const int64_t dp = request.data_parallel;
  const auto micro = config.micro_batch_size;
  const auto steps = config.gradient_accumulation_steps;
  if (micro && steps) {
    if (Multiply(Multiply(*micro, *steps), dp) != train) return Contradiction(request);
    return BatchSizes{train, *micro, *steps};
  }
  const int64_t known = micro ? *micro : steps.value_or(1);
  const std::optional<int64_t> rest = Divide(train, Multiply(known, dp));
  if (!rest) return Contradiction(request);
  if (micro) return BatchSizes{train, *micro, *rest};
  return BatchSizes{train, *rest, steps.value_or(1)};
}

Result<BatchSizes> FromMicroBatch(const Request& request) {
  const int64_t micro = *request.config.micro_batch_size;
  const int64_t steps = request.config.gradient_accumulation_steps.value_or(1);
  const int64_t train = Multiply(Multiply(micro, steps), request.data_parallel);
  if (train == std::numeric_limits<int64_t>::max()) {
    return Status::InvalidArgument(
        "config",
        fmt::format("{}: train_micro_batch_size_per_gpu {} x gradient_accumulation_steps {} "
                    "x data-parallel size {} (from {}) is too large to count",
                    request.config.source, micro, steps, request.data_parallel, request.origin));
  }
  return BatchSizes{train, micro, steps};
}

}  // namespace

Result<BatchSizes> ResolveBatch(const Config& config, int64_t data_parallel_size,
                                std::string_view world_size_origin) {
  if (data_parallel_size < 1) {
    return Status::InvalidArgument(
        "config", fmt::format("{}: the data-parallel size must be >= 1, found {} (from {})",
                              config.source, data_parallel_size, world_size_origin));
  }
  for (const std::optional<int64_t>& value :
       {config.train_batch_size, config.micro_batch_size, config.gradient_accumulation_steps}) {
    if (value.value_or(1) >= 1) continue;
    return Status::InvalidArgument(
        "config", fmt::format("{}: batch sizes must be >= 1, found {}", config.source, *value));
  }
  const Request request{config, data_parallel_size, world_size_origin};
  if (config.train_batch_size) return FromTrainBatch(request);
  if (config.micro_batch_size) return FromMicroBatch(request);
  if (config.dialect == Dialect::kDeepSpeed) {
    return Status::InvalidArgument(
        "config", fmt::format("{}: no batch size; give train_micro_batch_size_per_gpu or "
                              "train_batch_size (a multiple of the data-parallel size {}, from {})",
                              config.source, data_parallel_size, world_size_origin));
  }
  return BatchSizes{0, 0, config.gradient_accumulation_steps.value_or(1)};
}

}  // namespace shoal::config
