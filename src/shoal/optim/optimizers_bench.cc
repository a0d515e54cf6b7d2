// How close an update comes to the memory's speed: AdamW and its parts beside STREAM's triad, on
// the same executor, interleaved by Google Benchmark. Bytes are those that the algorithm names
// (reads and writes; the extra read of a written line is not counted), as in STREAM.
//
//   build/core/src/shoal/optim/optim_bench [--benchmark_filter=...]
//
// Arguments of a benchmark: threads, elements. `bytes_per_second` is what to compare.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/base/aligned.h"
#include "shoal/base/check.h"
#include "shoal/base/dtype.h"
#include "shoal/base/executor.h"
#include "shoal/base/status.h"
#include "shoal/optim/optimizers.h"
#include "shoal/optim/reduce.h"

namespace shoal::optim {
namespace {

// Zeros, written by the threads that will use them.
AlignedBuffer MakeBuffer(int64_t size_bytes, Executor& executor) {
  AlignedBuffer buffer = AlignedBuffer::Allocate(size_bytes).value();
  std::byte* const data = buffer.data();
  executor.ParallelFor(0, size_bytes, 4096, [data](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) data[i] = std::byte{0};
  });
  return buffer;
}

void Triad(benchmark::State& state) {
  Executor executor(static_cast<int>(state.range(0)));
  const int64_t n = state.range(1);
  AlignedBuffer a = MakeBuffer(8 * n, executor);
  AlignedBuffer b = MakeBuffer(8 * n, executor);
  AlignedBuffer c = MakeBuffer(8 * n, executor);
  double* const out = a.as<double>().data();
  const double* const x = b.as<double>().data();
  const double* const y = c.as<double>().data();
  for (auto _ : state) {
    executor.ParallelFor(0, n, 512, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = x[i] + 3.0 * y[i];
    });
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 24 * n);
}

// An update of `n` elements cut into ranges of `range_numel`.
void Update(benchmark::State& state, const Hyper& hyper, DType low, int64_t range_numel) {
  Executor executor(static_cast<int>(state.range(0)));
  const int64_t n = state.range(1);
  const int64_t low_bytes = DTypeBytes(low);
  const int64_t num_states = NumStates(hyper);
  AlignedBuffer grad = MakeBuffer(low_bytes * n, executor);
  AlignedBuffer master = MakeBuffer(4 * n, executor);
  AlignedBuffer state0 = MakeBuffer(4 * n, executor);
  AlignedBuffer state1 = MakeBuffer(4 * n, executor);
  AlignedBuffer compute = MakeBuffer(low_bytes * n, executor);
  std::vector<Range> ranges;
  for (int64_t begin = 0; begin < n; begin += range_numel) {
    ranges.push_back(
        {.numel = range_numel,
         .grad = grad.data() + low_bytes * begin,
         .grad_dtype = low,
         .master = master.data() + 4 * begin,
         .master_dtype = DType::kFloat32,
         .state0 = state0.data() + 4 * begin,
         .state1 = state1.data() + 4 * begin,
         .compute = low == DType::kFloat32 ? nullptr : compute.data() + low_bytes * begin,
         .compute_dtype = low});
  }
  int64_t step = 0;
  for (auto _ : state) {
    const Status status = Step(hyper, ++step, 0.5, ranges, executor);
    SHOAL_CHECK(status.ok(), status.ToString());
  }
  const int64_t copy_bytes = low == DType::kFloat32 ? 0 : low_bytes;
  state.SetBytesProcessed(state.iterations() * n * (low_bytes + 8 + 8 * num_states + copy_bytes));
  state.SetItemsProcessed(state.iterations() * n);
}

void AdamWBFloat16(benchmark::State& state) {
  Update(state, {.weight_decay = 0.1}, DType::kBFloat16, state.range(1));
}
void AdamWFloat16(benchmark::State& state) {
  Update(state, {.weight_decay = 0.1}, DType::kFloat16, state.range(1));
}
void AdamWFloat32(benchmark::State& state) {
  Update(state, {.weight_decay = 0.1}, DType::kFloat32, state.range(1));
}
void AdamWManySmallRanges(benchmark::State& state) {
  Update(state, {.weight_decay = 0.1}, DType::kBFloat16, 256);
}
void SgdMomentum(benchmark::State& state) {
  Update(state, {.kind = Kind::kSgd, .momentum = 0.9}, DType::kBFloat16, state.range(1));
}

void SquaredNormBFloat16(benchmark::State& state) {
  Executor executor(static_cast<int>(state.range(0)));
  const int64_t n = state.range(1);
  AlignedBuffer data = MakeBuffer(2 * n, executor);
  for (auto _ : state) {
    benchmark::DoNotOptimize(SumOfSquares(data.data(), DType::kBFloat16, n, executor));
  }
  state.SetBytesProcessed(state.iterations() * 2 * n);
}

void SumFourPieces(benchmark::State& state) {
  Executor executor(static_cast<int>(state.range(0)));
  const int64_t n = state.range(1);
  AlignedBuffer data = MakeBuffer(4 * 2 * n, executor);
  AlignedBuffer dst = MakeBuffer(4 * n, executor);
  std::vector<const void*> pieces;
  for (int64_t r = 0; r < 4; ++r) pieces.push_back(data.data() + 2 * n * r);
  for (auto _ : state) {
    const Status status =
        SumPieces(pieces, DType::kBFloat16, dst.data(), DType::kFloat32, false, n, executor);
    SHOAL_CHECK(status.ok(), status.ToString());
  }
  state.SetBytesProcessed(state.iterations() * n * (4 * 2 + 4));
}

constexpr int64_t kLarge = int64_t{1} << 24;  // far beyond every cache
constexpr int64_t kSmall = int64_t{1} << 14;

void Large(benchmark::internal::Benchmark* bench) {
  bench->Args({1, kLarge})
      ->Args({2, kLarge})
      ->UseRealTime()
      ->MeasureProcessCPUTime()
      ->Unit(benchmark::kMillisecond);
}

BENCHMARK(Triad)->Apply(Large);
BENCHMARK(AdamWBFloat16)->Apply(Large)->Args({1, kSmall});
BENCHMARK(AdamWFloat16)->Apply(Large);
BENCHMARK(AdamWFloat32)->Apply(Large);
BENCHMARK(AdamWManySmallRanges)->Apply(Large);
BENCHMARK(SgdMomentum)->Apply(Large);
BENCHMARK(SquaredNormBFloat16)->Apply(Large);
BENCHMARK(SumFourPieces)->Apply(Large);

}  // namespace
}  // namespace shoal::optim

BENCHMARK_MAIN();
