#include "shoal/optim/optimizers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/executor.h"
#include "shoal/base/status.h"
#include "shoal/optim/testing_internal.h"

namespace shoal::optim {
namespace {

using testing::Buffer;
using testing::ForEachInstructionSet;
using testing::kRealFloats;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<Hyper> Hypers() {
  return {
      {.kind = Kind::kAdamW, .lr = 1e-2, .weight_decay = 0.1},
      {.kind = Kind::kAdamW, .lr = 1e-3, .beta1 = 0.3, .eps = 1e-6, .bias_correction = false},
      {.kind = Kind::kAdam, .lr = 1e-2, .beta1 = 0.0, .beta2 = 0.95, .weight_decay = 0.1},
      {.kind = Kind::kSgd, .lr = 0.1},
      {.kind = Kind::kSgd, .lr = 0.1, .weight_decay = 0.01, .momentum = 0.9, .dampening = 0.3},
      {.kind = Kind::kSgd, .lr = 0.1, .momentum = 0.9, .nesterov = true},
  };
}

// One range with buffers of its own.
struct Shard {
  Buffer grad;
  Buffer master;
  Buffer state0;
  Buffer state1;
  std::optional<Buffer> compute;

  Shard(int64_t numel, DType grad_dtype, DType master_dtype, std::optional<DType> compute_dtype,
        int64_t offset = 0)
      : grad(grad_dtype, numel, offset),
        master(master_dtype, numel, offset),
        state0(master_dtype, numel, offset),
        state1(master_dtype, numel, offset) {
    if (compute_dtype) compute.emplace(*compute_dtype, numel, offset);
    grad.FillRandom(1);
    master.FillRandom(2);
    state0.Fill(0.0);
    state1.Fill(0.0);
    if (compute) compute->Fill(0.0);
  }

  // Elements [begin, begin + numel).
  Range RangeOf(int64_t begin, int64_t numel) {
    const auto at = [begin](Buffer& buffer) {
      return static_cast<std::byte*>(buffer.data()) + begin * DTypeBytes(buffer.dtype());
    };
    Range range = {.numel = numel,
                   .grad = at(grad),
                   .grad_dtype = grad.dtype(),
                   .master = at(master),
                   .master_dtype = master.dtype(),
                   .state0 = at(state0),
                   .state1 = at(state1)};
    if (compute) {
      range.compute = at(*compute);
      range.compute_dtype = compute->dtype();
    }
    return range;
  }
  Range Whole() { return RangeOf(0, grad.numel()); }

  void ExpectSame(const Shard& other) const {
    master.ExpectSame(other.master, "master");
    state0.ExpectSame(other.state0, "state0");
    state1.ExpectSame(other.state1, "state1");
    ASSERT_EQ(compute.has_value(), other.compute.has_value());
    if (compute) compute->ExpectSame(*other.compute, "compute");
  }

  void ExpectGuardsIntact() const {
    for (const Buffer* buffer : {&grad, &master, &state0, &state1}) buffer->ExpectGuardsIntact();
    if (compute) compute->ExpectGuardsIntact();
  }
};

// The header's order of operations for one element, as plain scalar code.
template <class T>
void ScalarAdam(const Hyper& h, int64_t t, T g, Shard& shard, int64_t i) {
  const double c1 = h.bias_correction ? 1.0 - std::pow(h.beta1, static_cast<double>(t)) : 1.0;
  const double c2 = h.bias_correction ? 1.0 - std::pow(h.beta2, static_cast<double>(t)) : 1.0;
  T p = static_cast<T>(shard.master.Get(i));
  T m = static_cast<T>(shard.state0.Get(i));
  T v = static_cast<T>(shard.state1.Get(i));
  if (h.kind == Kind::kAdamW) p = p * static_cast<T>(1.0 - h.lr * h.weight_decay);
  if (h.kind == Kind::kAdam) g = g + static_cast<T>(h.weight_decay) * p;
  const T change = g - m;
  m = 1.0 - h.beta1 < 0.5 ? m + static_cast<T>(1.0 - h.beta1) * change
                          : g - static_cast<T>(h.beta1) * change;
  v = v * static_cast<T>(h.beta2) + (static_cast<T>(1.0 - h.beta2) * g) * g;
  const T denominator = std::sqrt(v) / static_cast<T>(std::sqrt(c2)) + static_cast<T>(h.eps);
  p = p + (static_cast<T>(-(h.lr / c1)) * m) / denominator;
  shard.master.Set(i, p);
  shard.state0.Set(i, m);
  shard.state1.Set(i, v);
}

template <class T>
void ScalarSgd(const Hyper& h, int64_t t, T g, Shard& shard, int64_t i) {
  T p = static_cast<T>(shard.master.Get(i));
  if (h.weight_decay != 0.0) g = g + static_cast<T>(h.weight_decay) * p;
  if (h.momentum != 0.0) {
    T b = static_cast<T>(shard.state0.Get(i));
    b = t == 1 ? g : b * static_cast<T>(h.momentum) + static_cast<T>(1.0 - h.dampening) * g;
    shard.state0.Set(i, b);
    g = h.nesterov ? g + static_cast<T>(h.momentum) * b : b;
  }
  shard.master.Set(i, p + static_cast<T>(-h.lr) * g);
}

template <class T>
void ScalarStep(const Hyper& hyper, int64_t t, double grad_scale, Shard& shard) {
  for (int64_t i = 0; i < shard.grad.numel(); ++i) {
    const T g = static_cast<T>(shard.grad.Get(i)) * static_cast<T>(grad_scale);
    if (hyper.kind == Kind::kSgd) {
      ScalarSgd<T>(hyper, t, g, shard, i);
    } else {
      ScalarAdam<T>(hyper, t, g, shard, i);
    }
    if (shard.compute) shard.compute->Set(i, shard.master.Get(i));
  }
}

// Three updates of `actual` and of a scalar copy must agree in every bit.
void CheckUpdates(const Hyper& hyper, Shard actual) {
  SCOPED_TRACE(std::string(KindName(hyper.kind)) + ", gradients " +
               std::string(DTypeName(actual.grad.dtype())) + ", masters " +
               std::string(DTypeName(actual.master.dtype())) + ", " +
               std::to_string(actual.grad.numel()) + " elements");
  Shard expected = actual;
  Executor executor(1);
  for (int64_t t = 1; t <= 3; ++t) {
    const double grad_scale = 0.3 * static_cast<double>(t);
    const std::vector<Range> ranges = {actual.Whole()};
    const Status status = Step(hyper, t, grad_scale, ranges, executor);
    ASSERT_TRUE(status.ok()) << status.ToString();
    if (actual.master.dtype() == DType::kFloat64) {
      ScalarStep<double>(hyper, t, grad_scale, expected);
    } else {
      ScalarStep<float>(hyper, t, grad_scale, expected);
    }
    actual.ExpectSame(expected);
  }
  actual.ExpectGuardsIntact();
}

TEST(Step, HasTheBitsOfTheScalarLoopOnEveryInstructionSet) {
  const std::vector<std::optional<DType>> computes = {
      std::nullopt, DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
  ForEachInstructionSet([&] {
    for (const Hyper& hyper : Hypers()) {
      for (const DType grad : kRealFloats) {
        for (const DType master : {DType::kFloat32, DType::kFloat64}) {
          for (const auto& compute : computes) {
            for (const int64_t numel : {0, 1, 7, 37, 1030}) {
              CheckUpdates(hyper, Shard(numel, grad, master, compute, numel % 2));
            }
          }
        }
      }
    }
  });
}

TEST(Step, AllSizesAndAlignmentsAgreeWithTheScalarLoop) {
  const Hyper hyper = Hypers().front();
  ForEachInstructionSet([&] {
    for (int64_t numel = 0; numel <= 300; ++numel) {
      CheckUpdates(hyper,
                   Shard(numel, DType::kBFloat16, DType::kFloat32, DType::kBFloat16, numel % 17));
    }
  });
}

// Ranges of many sizes, alignments and dtypes.
std::vector<std::unique_ptr<Shard>> ManyShards() {
  std::vector<std::unique_ptr<Shard>> shards;
  for (int64_t i = 0; i < 600; ++i) {
    const int64_t numel = i % 97 == 0 ? 3000 + i : i % 41;
    const DType master = i % 5 == 0 ? DType::kFloat64 : DType::kFloat32;
    shards.push_back(std::make_unique<Shard>(numel, kRealFloats[static_cast<size_t>(i % 4)], master,
                                             DType::kBFloat16, i % 3));
  }
  shards.push_back(
      std::make_unique<Shard>(120'001, DType::kBFloat16, DType::kFloat32, DType::kBFloat16));
  return shards;
}

TEST(Step, NeitherThreadsNorTheCutIntoCallsChangeABit) {
  for (const Hyper& hyper : {Hypers()[0], Hypers()[4]}) {
    const auto expected = ManyShards();
    Executor one(1);
    for (const auto& shard : expected) {
      ASSERT_TRUE(Step(hyper, 1, 0.5, std::vector<Range>{shard->Whole()}, one).ok());
    }
    for (const int threads : {1, 2, 3}) {
      const auto shards = ManyShards();
      std::vector<Range> ranges;
      for (const auto& shard : shards) ranges.push_back(shard->Whole());
      Executor executor(threads);
      ASSERT_TRUE(Step(hyper, 1, 0.5, ranges, executor).ok());
      for (size_t i = 0; i < shards.size(); ++i) {
        SCOPED_TRACE("range " + std::to_string(i) + ", threads " + std::to_string(threads));
        shards[i]->ExpectSame(*expected[i]);
        shards[i]->ExpectGuardsIntact();
      }
    }
  }
}

TEST(Step, PartsOfAShardGiveTheWholeShard) {
  const Hyper hyper = Hypers().front();
  Shard whole(5000, DType::kFloat32, DType::kFloat32, DType::kBFloat16);
  Shard parts = whole;
  Executor executor(2);
  ASSERT_TRUE(Step(hyper, 1, 1.0, std::vector<Range>{whole.Whole()}, executor).ok());
  ASSERT_TRUE(Step(hyper, 1, 1.0,
                   std::vector<Range>{parts.RangeOf(0, 1), parts.RangeOf(1, 70),
                                      parts.RangeOf(71, 0), parts.RangeOf(71, 4929)},
                   executor)
                  .ok());
  parts.ExpectSame(whole);
}

TEST(Step, NonFiniteGradientsReachEverythingTheyTouchAndNothingElse) {
  ForEachInstructionSet([] {
    for (const Hyper& hyper : {Hypers()[0], Hypers()[4]}) {
      Shard shard(40, DType::kBFloat16, DType::kFloat32, DType::kBFloat16);
      shard.grad.Set(5, kNan);
      shard.grad.Set(38, std::numeric_limits<double>::infinity());
      Executor executor(1);
      ASSERT_TRUE(Step(hyper, 1, 1.0, std::vector<Range>{shard.Whole()}, executor).ok());
      for (int64_t i = 0; i < 40; ++i) {
        ASSERT_EQ(std::isfinite(shard.master.Get(i)), i != 5 && i != 38) << i;
        ASSERT_EQ(std::isfinite(shard.compute->Get(i)), i != 5 && i != 38) << i;
      }
    }
  });
}

TEST(Step, PaddingStaysZero) {
  for (const Hyper& hyper : Hypers()) {
    Shard shard(33, DType::kFloat32, DType::kFloat32, DType::kFloat16);
    shard.grad.Fill(0.0);
    shard.master.Fill(0.0);
    Executor executor(1);
    for (int64_t t = 1; t <= 2; ++t) {
      ASSERT_TRUE(Step(hyper, t, 1.0, std::vector<Range>{shard.Whole()}, executor).ok());
    }
    for (int64_t i = 0; i < 33; ++i) {
      ASSERT_EQ(shard.master.Get(i), 0.0);
      ASSERT_EQ(shard.compute->Get(i), 0.0);
    }
  }
}

TEST(Step, UnusedStatesMayBeNull) {
  Shard shard(5, DType::kFloat32, DType::kFloat32, std::nullopt);
  Range range = shard.Whole();
  range.state0 = nullptr;
  range.state1 = nullptr;
  Executor executor(1);
  const double before = shard.master.Get(0);
  ASSERT_TRUE(
      Step({.kind = Kind::kSgd, .lr = 0.5}, 1, 1.0, std::vector<Range>{range}, executor).ok());
  EXPECT_NE(shard.master.Get(0), before);
}

TEST(States, AreNamedAsInTorch) {
  using Names = std::vector<std::string_view>;
  EXPECT_EQ(StateNames({.kind = Kind::kAdamW}), (Names{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(StateNames({.kind = Kind::kSgd, .momentum = 0.9}), (Names{"momentum_buffer"}));
  EXPECT_EQ(StateNames({.kind = Kind::kSgd}), Names{});
  for (const Hyper& hyper : Hypers()) {
    EXPECT_EQ(NumStates(hyper), static_cast<int64_t>(StateNames(hyper).size()));
  }
}

TEST(Validate, NamesTheBrokenRule) {
  const auto text = [](const Hyper& hyper) { return Validate(hyper).ToString(); };
  for (const Hyper& hyper : Hypers()) EXPECT_EQ(text(hyper), "ok");
  EXPECT_EQ(text({.lr = -1.0}), "[optimizer step] lr is -1, must be finite and >= 0");
  EXPECT_EQ(text({.lr = kNan}), "[optimizer step] lr is nan, must be finite and >= 0");
  EXPECT_EQ(text({.beta1 = 1.0}), "[optimizer step] beta1 is 1, must be in [0, 1)");
  EXPECT_EQ(text({.beta2 = -0.5}), "[optimizer step] beta2 is -0.5, must be in [0, 1)");
  EXPECT_EQ(text({.eps = -1e-8}), "[optimizer step] eps is -1e-08, must be finite and >= 0");
  EXPECT_EQ(text({.weight_decay = -0.1}),
            "[optimizer step] weight_decay is -0.1, must be finite and >= 0");
  EXPECT_EQ(text({.kind = Kind::kSgd, .nesterov = true}),
            "[optimizer step] momentum is 0, must be > 0 with nesterov");
  EXPECT_EQ(text({.kind = Kind::kSgd, .momentum = 0.9, .dampening = 0.5, .nesterov = true}),
            "[optimizer step] dampening is 0.5, must be 0 with nesterov");
}

class BrokenCall : public ::testing::Test {
 protected:
  // The message of a step over an intact range and `broken`; neither may have been written.
  std::string MessageFor(const Range& broken, int64_t step = 1, double grad_scale = 1.0) {
    Executor executor(1);
    const std::vector<Range> ranges = {shard_.RangeOf(0, 3), broken};
    const Shard before = shard_;
    const Status status = Step({}, step, grad_scale, ranges, executor);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    shard_.ExpectSame(before);
    return status.ToString();
  }

  Shard shard_{8, DType::kFloat32, DType::kFloat32, DType::kBFloat16};
  Range range_ = shard_.RangeOf(3, 5);
};

TEST_F(BrokenCall, NamesStepAndScale) {
  EXPECT_EQ(MessageFor(range_, 0), "[optimizer step] step is 0, must be >= 1");
  EXPECT_EQ(MessageFor(range_, 1, kNan), "[optimizer step] grad_scale is nan, must be finite");
}

TEST_F(BrokenCall, NamesTheRange) {
  range_.numel = -1;
  EXPECT_EQ(MessageFor(range_), "[optimizer step] numel is -1, must be >= 0 (range 1 of 2)");
}

TEST_F(BrokenCall, NamesTheDtype) {
  range_.master_dtype = DType::kBFloat16;
  EXPECT_EQ(MessageFor(range_),
            "[optimizer step] master_dtype is bfloat16, must be float32 or float64 (range 1 of 2)");
  range_.master_dtype = DType::kFloat32;
  range_.compute_dtype = DType::kInt8;
  EXPECT_EQ(MessageFor(range_),
            "[optimizer step] compute_dtype is int8, must be float32, float64, bfloat16 or float16 "
            "(range 1 of 2)");
}

TEST_F(BrokenCall, NamesTheBuffer) {
  range_.state1 = nullptr;
  EXPECT_EQ(MessageFor(range_), "[optimizer step] state1 is null (range 1 of 2)");
  range_.state1 = shard_.state1.data();
  range_.grad = static_cast<const std::byte*>(range_.grad) + 2;
  EXPECT_NE(MessageFor(range_).find("grad (float32) is at address"), std::string::npos);
}

}  // namespace
}  // namespace shoal::optim
