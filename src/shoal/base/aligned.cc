#include "shoal/base/aligned.h"

#include <fmt/format.h>
#include <stdlib.h>  // posix_memalign

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "shoal/base/status.h"

namespace shoal {

AlignedBuffer::~AlignedBuffer() { std::free(data_); }

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

Result<AlignedBuffer> AlignedBuffer::Allocate(int64_t size_bytes, int64_t alignment_bytes) {
  if (size_bytes < 0) {
    return Status::InvalidArgument("allocate",
                                   fmt::format("size_bytes is {}, must be >= 0", size_bytes));
  }
  if (!IsPowerOfTwo(alignment_bytes) || alignment_bytes < 8) {
    return Status::InvalidArgument(
        "allocate",
        fmt::format("alignment_bytes is {}, must be a power of two >= 8", alignment_bytes));
  }
  void* data = nullptr;
  const auto bytes = static_cast<size_t>(std::max<int64_t>(size_bytes, 1));
  if (posix_memalign(&data, static_cast<size_t>(alignment_bytes), bytes) != 0) {
    return Status::OutOfMemory("allocate", fmt::format("no memory for {} bytes", size_bytes));
  }
  return AlignedBuffer(static_cast<std::byte*>(data), size_bytes);
}

}  // namespace shoal
