// Built once per instruction set: foreach_target.h includes this file again for each of them.
//
// Instruction sets with vectors of unknown length are left out: sums keep their partial sums in an
// array of vectors. Processors that have them also have NEON.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "shoal/optim/kernels.cc"
#include <hwy/foreach_target.h>  // first: re-includes this file
#include <hwy/highway.h>

#include <array>
#include <cstdint>
#include <type_traits>

#include "shoal/optim/convert-inl.h"
#include "shoal/optim/float_types_internal.h"
#include "shoal/optim/kernels_internal.h"

HWY_BEFORE_NAMESPACE();
namespace shoal::optim::internal::HWY_NAMESPACE {
namespace {

template <class Src, class Dst>
void ConvertAll(const void* src, void* dst, int64_t n) {
  constexpr bool kWide = std::is_same_v<Src, double> || std::is_same_v<Dst, double>;
  const auto* from = static_cast<const Src*>(src);
  auto* to = static_cast<Dst*>(dst);
  ForEachVector<std::conditional_t<kWide, double, float>>(
      n, [=](auto d, int64_t i) HWY_ATTR { StoreAs(d, LoadAs(d, from + i), to + i); });
}

// A vector is read from all pieces and from dst before it is written: dst may be one of the pieces.
template <class Src, class Dst>
void SumAll(const SumArgs& args) {
  constexpr bool kWide = std::is_same_v<Src, double> || std::is_same_v<Dst, double>;
  const void* const* pieces = args.pieces.data();
  const auto num_pieces = static_cast<int64_t>(args.pieces.size());
  const bool accumulate = args.accumulate;
  const int64_t begin = args.begin;
  auto* dst = static_cast<Dst*>(args.dst) + begin;
  ForEachVector<std::conditional_t<kWide, double, float>>(
      args.end - begin, [=](auto d, int64_t i) HWY_ATTR {
        auto sum = accumulate ? LoadAs(d, dst + i) : hn::Zero(d);
        for (int64_t r = 0; r < num_pieces; ++r) {
          sum = hn::Add(sum, LoadAs(d, static_cast<const Src*>(pieces[r]) + begin + i));
        }
        StoreAs(d, sum, dst + i);
      });
}

// Element i belongs to partial sum i % 16 on every instruction set; partial sums are added in a
// fixed tree.
template <class T>
double SumOfSquaresBlock(const void* data, int64_t n) {
  constexpr int64_t kPartial = 16;
  const hn::CappedTag<double, kPartial> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  constexpr int64_t kVectors = kPartial / kLanes;
  const auto* p = static_cast<const T*>(data);
  hn::Vec<decltype(d)> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + kPartial <= n; i += kPartial) {
    for (int64_t v = 0; v < kVectors; ++v) {
      const auto x = LoadAs(d, p + i + v * kLanes);
      sums[v] = hn::Add(sums[v], hn::Mul(x, x));
    }
  }
  double partial[kPartial];
  for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d, partial + v * kLanes);
  const hn::CappedTag<double, 1> one;
  for (int64_t lane = 0; i < n; ++i, ++lane) {
    const double x = hn::GetLane(LoadAs(one, p + i));
    partial[lane] += x * x;
  }
  for (int64_t width = kPartial / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  }
  return partial[0];
}

// optimizers.h, "Order of operations"; T is the master's type.
template <class T>
void Adam(const AdamScalars& scalars, const Tile& tile) {
  const AdamScalars s = scalars;
  const auto* grad = static_cast<const T*>(tile.grad);
  auto* master = static_cast<T*>(tile.master);
  auto* exp_avg = static_cast<T*>(tile.state0);
  auto* exp_avg_sq = static_cast<T*>(tile.state1);
  const bool has_l2 = s.l2 != 0.0;
  const bool remembers = s.one_minus_beta1 < 0.5;
  ForEachVector<T>(tile.n, [=](auto d, int64_t i) HWY_ATTR {
    const auto scalar = [d](double x) HWY_ATTR { return hn::Set(d, static_cast<T>(x)); };
    auto p = hn::Mul(hn::LoadU(d, master + i), scalar(s.shrink));
    auto g = hn::Mul(hn::LoadU(d, grad + i), scalar(s.grad_scale));
    if (has_l2) g = hn::Add(g, hn::Mul(scalar(s.l2), p));
    auto m = hn::LoadU(d, exp_avg + i);
    const auto change = hn::Sub(g, m);
    m = remembers ? hn::Add(m, hn::Mul(scalar(s.one_minus_beta1), change))
                  : hn::Sub(g, hn::Mul(scalar(s.beta1), change));
    auto v = hn::Mul(hn::LoadU(d, exp_avg_sq + i), scalar(s.beta2));
    v = hn::Add(v, hn::Mul(hn::Mul(scalar(s.one_minus_beta2), g), g));
    const auto root = hn::Div(hn::Sqrt(v), scalar(s.sqrt_correction2));
    const auto numerator = hn::Mul(scalar(s.minus_step_size), m);
    p = hn::Add(p, hn::Div(numerator, hn::Add(root, scalar(s.eps))));
    hn::StoreU(m, d, exp_avg + i);
    hn::StoreU(v, d, exp_avg_sq + i);
    hn::StoreU(p, d, master + i);
  });
}

template <class T>
void Sgd(const SgdScalars& scalars, const Tile& tile) {
  const SgdScalars s = scalars;
  const auto* grad = static_cast<const T*>(tile.grad);
  auto* master = static_cast<T*>(tile.master);
  auto* buffer = static_cast<T*>(tile.state0);
  const bool has_l2 = s.l2 != 0.0;
  ForEachVector<T>(tile.n, [=](auto d, int64_t i) HWY_ATTR {
    const auto scalar = [d](double x) HWY_ATTR { return hn::Set(d, static_cast<T>(x)); };
    auto p = hn::LoadU(d, master + i);
    auto g = hn::Mul(hn::LoadU(d, grad + i), scalar(s.grad_scale));
    if (has_l2) g = hn::Add(g, hn::Mul(scalar(s.l2), p));
    if (s.has_momentum) {
      auto b = g;
      if (!s.is_first) {
        b = hn::Add(hn::Mul(hn::LoadU(d, buffer + i), scalar(s.momentum)),
                    hn::Mul(scalar(s.one_minus_dampening), g));
      }
      hn::StoreU(b, d, buffer + i);
      g = s.nesterov ? hn::Add(g, hn::Mul(scalar(s.momentum), b)) : b;
    }
    p = hn::Add(p, hn::Mul(scalar(s.minus_lr), g));
    hn::StoreU(p, d, master + i);
  });
}

template <class Src>
constexpr std::array<Kernels::ConvertFn, kNumRealFloats> ConvertFrom() {
  return {ConvertAll<Src, float>, ConvertAll<Src, double>, ConvertAll<Src, BFloat16>,
          ConvertAll<Src, Float16>};
}

template <class Src>
constexpr std::array<Kernels::SumFn, kNumRealFloats> SumFrom() {
  return {SumAll<Src, float>, SumAll<Src, double>, SumAll<Src, BFloat16>, SumAll<Src, Float16>};
}

// In the order of DType.
constexpr Kernels kKernels = {
    {ConvertFrom<float>(), ConvertFrom<double>(), ConvertFrom<BFloat16>(), ConvertFrom<Float16>()},
    {SumFrom<float>(), SumFrom<double>(), SumFrom<BFloat16>(), SumFrom<Float16>()},
    {SumOfSquaresBlock<float>, SumOfSquaresBlock<double>, SumOfSquaresBlock<BFloat16>,
     SumOfSquaresBlock<Float16>},
    {Adam<float>, Adam<double>},
    {Sgd<float>, Sgd<double>},
};

const Kernels* TableOfTarget() { return &kKernels; }

}  // namespace
}  // namespace shoal::optim::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoal::optim::internal {

HWY_EXPORT(TableOfTarget);

const Kernels& ChooseKernels() { return *HWY_DYNAMIC_DISPATCH(TableOfTarget)(); }

}  // namespace shoal::optim::internal
#endif  // HWY_ONCE
