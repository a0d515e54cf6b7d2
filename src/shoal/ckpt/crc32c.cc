#include "shoal/ckpt/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shoal::ckpt {

uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> bytes) {
  constexpr size_t kMaxBytesPerCall = size_t{1} << 30;  // the library counts with int
  // The library neither inverts the value it starts with nor the one that it returns.
  uint32_t state = ~crc;
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kMaxBytesPerCall);
    // The library does not write to the buffer; its signature lacks a const.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    state = crc32_iscsi(data, static_cast<int>(count), state);
    bytes = bytes.subspan(count);
  }
  return ~state;
}

}  // namespace shoal::ckpt
