// CRC-32C (Castagnoli), the checksum of docs/formats/checkpoint.md: that of "123456789" is
// 0xE3069283.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shoal::ckpt {

// The checksum of the bytes so far followed by `bytes`; start with crc = 0. Thread-safe.
uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> bytes);

inline uint32_t Crc32c(std::span<const std::byte> bytes) { return ExtendCrc32c(0, bytes); }

}  // namespace shoal::ckpt
