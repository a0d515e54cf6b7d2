// For the tests of this room: naive conversions of the real floats, buffers of any dtype, and a
// loop over the instruction sets of this processor. Written with another method than the kernels
// (exact arithmetic on doubles), so that they share no mistake.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "shoal/base/dtype.h"

namespace shoal::optim::testing {

inline constexpr std::array<DType, 4> kRealFloats = {DType::kFloat32, DType::kFloat64,
                                                     DType::kBFloat16, DType::kFloat16};

// A binary float with `mantissa_bits` stored bits, exponents down to `min_exponent` and 16 bits.
struct Format16 {
  int mantissa_bits;
  int min_exponent;
  double max_finite;
  uint16_t nan;
};

inline constexpr Format16 kFloat16Format = {10, -14, 65504.0, 0x7E00};
inline constexpr Format16 kBFloat16Format = {7, -126, 0x1.FEp127, 0x7FC0};

// Rounds to nearest, ties to even.
inline uint16_t Encode16(const Format16& format, float x) {
  const bool bfloat16 = format.mantissa_bits == kBFloat16Format.mantissa_bits;
  if (std::isnan(x)) {
    return static_cast<uint16_t>(format.nan | (!bfloat16 && std::signbit(x) ? 0x8000 : 0));
  }
  const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
  const double magnitude = std::fabs(static_cast<double>(x));
  const int infinity = (1 << 15) - (1 << format.mantissa_bits);
  if (std::isinf(magnitude)) return static_cast<uint16_t>(sign | infinity);
  const int exponent =
      magnitude == 0.0 ? format.min_exponent : std::max(std::ilogb(magnitude), format.min_exponent);
  // In units of the last place; nearbyint rounds ties to even. Carries run into the exponent.
  const auto units =
      static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  const int bits = units + ((exponent - format.min_exponent) << format.mantissa_bits);
  return static_cast<uint16_t>(sign | std::min(bits, infinity));
}

inline double Decode16(const Format16& format, uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int magnitude = bits & 0x7FFF;
  const int exponent = magnitude >> format.mantissa_bits;
  const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
  const int top = (1 << (15 - format.mantissa_bits)) - 1;
  if (exponent == top) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const int implicit = exponent == 0 ? 0 : 1 << format.mantissa_bits;
  const int power = std::max(exponent, 1) - 1 + format.min_exponent - format.mantissa_bits;
  return sign * std::ldexp(mantissa + implicit, power);
}

// `numel` elements of any real float dtype, `offset` elements away from an aligned address, between
// guard elements that ExpectGuardsIntact looks at.
class Buffer {
 public:
  Buffer(DType dtype, int64_t numel, int64_t offset = 0)
      : dtype_(dtype),
        numel_(numel),
        begin_((kGuard + offset) * DTypeBytes(dtype)),
        bytes_(static_cast<size_t>(begin_ + (numel + kGuard) * DTypeBytes(dtype)), kGuardByte) {}

  void* data() { return bytes_.data() + begin_; }
  const void* data() const { return bytes_.data() + begin_; }
  DType dtype() const { return dtype_; }
  int64_t numel() const { return numel_; }

  double Get(int64_t i) const {
    switch (dtype_) {
      case DType::kFloat32:
        return Read<float>(i);
      case DType::kFloat64:
        return Read<double>(i);
      case DType::kBFloat16:
        return Decode16(kBFloat16Format, Read<uint16_t>(i));
      default:
        return Decode16(kFloat16Format, Read<uint16_t>(i));
    }
  }

  // Rounds; a float64 goes through float32 to a 16-bit type, as torch does it.
  void Set(int64_t i, double value) {
    switch (dtype_) {
      case DType::kFloat32:
        return Write(i, static_cast<float>(value));
      case DType::kFloat64:
        return Write(i, value);
      case DType::kBFloat16:
        return Write(i, Encode16(kBFloat16Format, static_cast<float>(value)));
      default:
        return Write(i, Encode16(kFloat16Format, static_cast<float>(value)));
    }
  }

  void Fill(double value) {
    for (int64_t i = 0; i < numel_; ++i) Set(i, value);
  }

  // Normally distributed with this standard deviation.
  void FillRandom(uint32_t seed, double deviation = 1.0) {
    std::mt19937 engine(seed);
    std::normal_distribution<double> normal(0.0, deviation);
    for (int64_t i = 0; i < numel_; ++i) Set(i, normal(engine));
  }

  // The same bits everywhere; any two not-a-numbers are the same.
  void ExpectSame(const Buffer& other, const char* what) const {
    ASSERT_EQ(numel_, other.numel_);
    for (int64_t i = 0; i < numel_; ++i) {
      const double a = Get(i);
      const double b = other.Get(i);
      if (std::isnan(a) && std::isnan(b)) continue;
      ASSERT_EQ(std::bit_cast<uint64_t>(a), std::bit_cast<uint64_t>(b))
          << what << "[" << i << "] of " << numel_ << ": " << a << " and " << b;
    }
  }

  void ExpectGuardsIntact() const {
    const auto end = static_cast<size_t>(begin_ + numel_ * DTypeBytes(dtype_));
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (i >= static_cast<size_t>(begin_) && i < end) continue;
      ASSERT_EQ(bytes_[i], kGuardByte) << "byte " << i << " outside the buffer was written";
    }
  }

 private:
  static constexpr int64_t kGuard = 8;
  static constexpr std::byte kGuardByte{0xA5};

  template <class T>
  T Read(int64_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + begin_ + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
  template <class T>
  void Write(int64_t i, T value) {
    std::memcpy(bytes_.data() + begin_ + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }

  DType dtype_;
  int64_t numel_;
  int64_t begin_;  // in bytes
  std::vector<std::byte> bytes_;
};

// Runs body() once per instruction set that this processor has and this build contains, with that
// one chosen. Reports which one failed.
template <class Body>
void ForEachInstructionSet(const Body& body) {
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_FALSE(targets.empty());
  for (const int64_t target : targets) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    body();
    hwy::SetSupportedTargetsForTest(0);
  }
}

}  // namespace shoal::optim::testing
