// AlignedBuffer: owned bytes at an aligned address, for vector loads, direct I/O and tests of both.
//
// Thread-safety: like a vector: const access from several threads is safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shoal/base/status.h"

namespace shoal {

// True for 1, 2, 4, 8, ...
constexpr bool IsPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

// The smallest multiple of `multiple` that is >= value. @pre value >= 0, multiple >= 1, the result
// fits.
constexpr int64_t AlignUp(int64_t value, int64_t multiple) {
  const int64_t rest = value % multiple;
  return rest == 0 ? value : value + (multiple - rest);
}

class AlignedBuffer {
 public:
  // No bytes.
  AlignedBuffer() = default;
  ~AlignedBuffer();

  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;

  // `size_bytes` bytes (may be 0), not initialised, at a multiple of `alignment_bytes`.
  // InvalidArgument for a negative size or an alignment that is no power of two of at least 8;
  // OutOfMemory.
  static Result<AlignedBuffer> Allocate(int64_t size_bytes, int64_t alignment_bytes = 64);

  // Null only for a buffer that was never allocated or was moved from.
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }

  // The first size_bytes() / sizeof(T) elements. @pre the alignment suits T.
  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data_), static_cast<size_t>(size_bytes_) / sizeof(T)};
  }

 private:
  AlignedBuffer(std::byte* data, int64_t size_bytes) : data_(data), size_bytes_(size_bytes) {}

  std::byte* data_ = nullptr;
  int64_t size_bytes_ = 0;
};

}  // namespace shoal
