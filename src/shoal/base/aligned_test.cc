#include "shoal/base/aligned.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace shoal {
namespace {

TEST(AlignUpTest, GivesTheNextMultiple) {
  EXPECT_EQ(AlignUp(0, 64), 0);
  EXPECT_EQ(AlignUp(1, 64), 64);
  EXPECT_EQ(AlignUp(64, 64), 64);
  EXPECT_EQ(AlignUp(65, 48), 96);  // need not be a power of two
  EXPECT_EQ(AlignUp((int64_t{1} << 62) + 1, 256), (int64_t{1} << 62) + 256);
}

TEST(IsPowerOfTwoTest, KnowsPowersOfTwo) {
  EXPECT_TRUE(IsPowerOfTwo(1));
  EXPECT_TRUE(IsPowerOfTwo(int64_t{1} << 62));
  EXPECT_FALSE(IsPowerOfTwo(0));
  EXPECT_FALSE(IsPowerOfTwo(-8));
  EXPECT_FALSE(IsPowerOfTwo(96));
}

TEST(AlignedBufferTest, AddressIsAlignedAndAllBytesAreOurs) {
  for (const int64_t alignment : {8, 64, 4096}) {
    for (const int64_t size : {0, 1, 63, 64, 10000}) {
      Result<AlignedBuffer> buffer = AlignedBuffer::Allocate(size, alignment);
      ASSERT_TRUE(buffer.ok());
      ASSERT_NE(buffer->data(), nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % static_cast<uintptr_t>(alignment),
                0U);
      EXPECT_EQ(buffer->size_bytes(), size);
      for (std::byte& byte : buffer->as<std::byte>()) byte = std::byte{0x5a};  // ASan watches
    }
  }
}

TEST(AlignedBufferTest, ViewsAsWholeElements) {
  AlignedBuffer buffer = AlignedBuffer::Allocate(22).value();
  EXPECT_EQ(buffer.as<float>().size(), 5U);
}

TEST(AlignedBufferTest, MovingLeavesTheSourceEmptyOrSwapped) {
  AlignedBuffer a = AlignedBuffer::Allocate(16).value();
  const std::byte* const address = a.data();
  AlignedBuffer b = std::move(a);
  EXPECT_EQ(b.data(), address);
  AlignedBuffer c;
  c = std::move(b);
  EXPECT_EQ(c.data(), address);
  EXPECT_EQ(c.size_bytes(), 16);
}

TEST(AlignedBufferTest, BadArgumentsAreNamed) {
  EXPECT_EQ(AlignedBuffer::Allocate(-1).status().ToString(),
            "[allocate] size_bytes is -1, must be >= 0");
  EXPECT_EQ(AlignedBuffer::Allocate(8, 48).status().ToString(),
            "[allocate] alignment_bytes is 48, must be a power of two >= 8");
  EXPECT_EQ(AlignedBuffer::Allocate(8, 4).status().code(), StatusCode::kInvalidArgument);
}

TEST(AlignedBufferTest, TooMuchIsOutOfMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's allocator ends the process instead of returning null";
#endif
  EXPECT_EQ(AlignedBuffer::Allocate(std::numeric_limits<int64_t>::max() - 4096).status().code(),
            StatusCode::kOutOfMemory);
}

}  // namespace
}  // namespace shoal
