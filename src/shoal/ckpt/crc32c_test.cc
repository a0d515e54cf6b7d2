#include "shoal/ckpt/crc32c.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace shoal::ckpt {
namespace {

uint32_t CrcOf(std::string_view text) { return Crc32c(std::as_bytes(std::span(text))); }

// One bit at a time, from the definition.
uint32_t NaiveCrc(std::string_view text) {
  uint32_t state = 0xFFFFFFFFU;
  for (const char c : text) {
    state ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) {
      state = (state >> 1) ^ ((state & 1U) != 0 ? 0x82F63B78U : 0U);
    }
  }
  return state ^ 0xFFFFFFFFU;
}

TEST(Crc32cTest, HasThePublishedCheckValues) {
  EXPECT_EQ(CrcOf(""), 0U);
  EXPECT_EQ(CrcOf("123456789"), 0xE3069283U);
  // RFC 3720, B.4.
  EXPECT_EQ(CrcOf(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(CrcOf(std::string(32, '\xFF')), 0x62A8AB43U);
}

RC_GTEST_PROP(Crc32cTest, EqualsTheDefinitionAndExtends,
              (const std::string& a, const std::string& b)) {
  RC_ASSERT(CrcOf(a) == NaiveCrc(a));
  RC_ASSERT(ExtendCrc32c(CrcOf(a), std::as_bytes(std::span(b))) == NaiveCrc(a + b));
}

}  // namespace
}  // namespace shoal::ckpt
