// Loads and stores of the four real float types as vectors of float or double; included once per
// instruction set by kernels.cc (Highway's re-inclusion, hence the toggled guard).
//
// The 16-bit types are converted with integer operations on every instruction set: hardware that
// converts bfloat16 flushes subnormals, Highway's portable conversions truncate, and memory is
// slower than either.
#if defined(SHOAL_OPTIM_CONVERT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SHOAL_OPTIM_CONVERT_INL_H
#undef SHOAL_OPTIM_CONVERT_INL_H
#else
#define SHOAL_OPTIM_CONVERT_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "shoal/optim/float_types_internal.h"

HWY_BEFORE_NAMESPACE();
namespace shoal::optim::internal::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using IsDouble = std::is_same<hn::TFromD<D>, double>;

template <class DF>
HWY_INLINE hn::Vec<DF> FromBFloat16(DF df, const uint16_t* HWY_RESTRICT p) {
  const hn::RebindToUnsigned<DF> du;
  const hn::Rebind<uint16_t, DF> d16;
  return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, p))));
}

template <class DF>
HWY_INLINE void ToBFloat16(DF df, hn::Vec<DF> x, uint16_t* HWY_RESTRICT p) {
  const hn::RebindToUnsigned<DF> du;
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<uint16_t, DF> d16;
  const auto bits = hn::BitCast(du, x);
  // Half an ulp less one, plus one where the kept part is odd: ties go to even.
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF))));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(x));
  const auto result = hn::IfThenElse(is_nan, hn::Set(du, 0x7FC0), rounded);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, result)), d16, p);
}

template <class DF>
HWY_INLINE hn::Vec<DF> FromFloat16(DF df, const uint16_t* HWY_RESTRICT p) {
  const hn::RebindToUnsigned<DF> du;
  const hn::Rebind<uint16_t, DF> d16;
  const auto half = hn::PromoteTo(du, hn::LoadU(d16, p));
  const auto magnitude = hn::And(half, hn::Set(du, 0x7FFF));
  const auto sign = hn::ShiftLeft<16>(hn::Xor(half, magnitude));
  const auto shifted = hn::ShiftLeft<13>(magnitude);
  const auto rebias = hn::Set(du, 112u << 23);  // 127 - 15
  const auto normal = hn::Add(shifted, rebias);
  // Subnormals: one exponent up, then the implicit bit is subtracted as a float (exact).
  const auto implicit = hn::Set(du, 113u << 23);
  const auto subnormal = hn::BitCast(
      du, hn::Sub(hn::BitCast(df, hn::Add(shifted, implicit)), hn::BitCast(df, implicit)));
  const auto is_subnormal = hn::Eq(hn::And(half, hn::Set(du, 0x7C00)), hn::Zero(du));
  const auto is_special = hn::Eq(hn::And(half, hn::Set(du, 0x7C00)), hn::Set(du, 0x7C00));
  const auto finite = hn::IfThenElse(is_subnormal, subnormal, normal);
  const auto result = hn::IfThenElse(is_special, hn::Add(normal, rebias), finite);
  return hn::BitCast(df, hn::Or(result, sign));
}

template <class DF>
HWY_INLINE void ToFloat16(DF df, hn::Vec<DF> x, uint16_t* HWY_RESTRICT p) {
  const hn::RebindToUnsigned<DF> du;
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<uint16_t, DF> d16;
  const auto bits = hn::BitCast(du, x);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFF));
  const auto sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1));
  const auto rebias = hn::Set(du, 0xC8000FFF);  // ((15 - 127) << 23) + half an ulp less one
  const auto normal = hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(odd, rebias)));
  // Below 2^-14: adding 0.5, whose ulp is float16's smallest subnormal, rounds as wanted.
  const auto half = hn::Set(du, 0x3F000000);
  const auto subnormal =
      hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(df, magnitude), hn::BitCast(df, half))), half);
  const auto m = hn::BitCast(di, magnitude);  // not negative: signed comparisons serve
  const auto is_subnormal = hn::RebindMask(du, hn::Lt(m, hn::Set(di, 0x38800000)));
  const auto is_large = hn::RebindMask(du, hn::Gt(m, hn::Set(di, 0x477FFFFF)));  // from 65536 on
  const auto is_nan = hn::RebindMask(du, hn::Gt(m, hn::Set(di, 0x7F800000)));
  const auto large = hn::IfThenElse(is_nan, hn::Set(du, 0x7E00), hn::Set(du, 0x7C00));
  const auto finite = hn::IfThenElse(is_subnormal, subnormal, normal);
  const auto result = hn::Or(hn::IfThenElse(is_large, large, finite), sign);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, result)), d16, p);
}

// The elements p[0 .. Lanes(d)) as a vector of D's type (float or double; never narrower than T).
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadAs(D d, const T* HWY_RESTRICT p) {
  if constexpr (std::is_same_v<hn::TFromD<D>, T>) {
    return hn::LoadU(d, p);
  } else if constexpr (IsDouble<D>::value) {
    return hn::PromoteTo(d, LoadAs(hn::Rebind<float, D>(), p));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return FromBFloat16(d, &p->bits);
  } else {
    static_assert(std::is_same_v<T, Float16>);
    return FromFloat16(d, &p->bits);
  }
}

// Writes a vector of D's type (float or double) to p[0 .. Lanes(d)), rounded to T. From float only
// types that are no wider.
template <class D, class T>
HWY_INLINE void StoreAs(D d, hn::Vec<D> x, T* HWY_RESTRICT p) {
  if constexpr (std::is_same_v<hn::TFromD<D>, T>) {
    hn::StoreU(x, d, p);
  } else if constexpr (IsDouble<D>::value) {
    const hn::Rebind<float, D> df;
    StoreAs(df, hn::DemoteTo(df, x), p);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    ToBFloat16(d, x, &p->bits);
  } else {
    static_assert(std::is_same_v<T, Float16>);
    ToFloat16(d, x, &p->bits);
  }
}

// Calls body(d, i) for vectors of T that cover [0, n): full ones, then single elements. Lanes do
// not interact, so the cut changes no bit.
template <class T, class Body>
HWY_INLINE void ForEachVector(int64_t n, const Body& body) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(d, i);
  const hn::CappedTag<T, 1> one;
  for (; i < n; ++i) body(one, i);
}

}  // namespace shoal::optim::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SHOAL_OPTIM_CONVERT_INL_H
