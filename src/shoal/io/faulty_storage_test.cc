#include "shoal/io/faulty_storage.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/io/memory_storage.h"
#include "shoal/io/storage.h"
#include "shoal/io/storage_for_test_internal.h"
#include "shoal/io/tree.h"

namespace shoal::io {
namespace {

const Status& FullDisk() {
  static const Status status = Status::IoError("write", "no space left");
  return status;
}

TEST(FaultyStorageTest, FailsTheChosenCallOnly) {
  MemoryStorage memory;
  FaultyStorage storage(&memory, {FaultKind::kError, 1, FullDisk()});
  SHOAL_EXPECT_OK(storage.CreateDir("/a"));
  EXPECT_EQ(storage.CreateDir("/b"), FullDisk());
  SHOAL_EXPECT_OK(storage.CreateDir("/c"));
  EXPECT_EQ(memory.List("/").value(), (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(storage.num_calls(), 3);
}

TEST(FaultyStorageTest, ShortWritesLeaveTheFirstHalf) {
  MemoryStorage memory;
  FaultyStorage storage(&memory, {FaultKind::kShortWrite, 1, FullDisk()});
  EXPECT_EQ(WriteText(storage, "/f", "abcd"), FullDisk());
  EXPECT_EQ(ReadText(memory, "/f", 100).value(), "ab");
}

TEST(FaultyStorageTest, AfterAStopNothingHappens) {
  MemoryStorage memory;
  FaultyStorage storage(&memory, {.kind = FaultKind::kStop, .at_call = 1});
  SHOAL_EXPECT_OK(storage.CreateDir("/a"));
  EXPECT_FALSE(storage.CreateDir("/b").ok());
  EXPECT_FALSE(storage.CreateDir("/c").ok());
  EXPECT_EQ(memory.List("/").value(), std::vector<std::string>{"a"});
}

TEST(FaultyStorageTest, AStopInsideDoesTheCallAndReportsNoSuccess) {
  MemoryStorage memory;
  FaultyStorage storage(&memory, {.kind = FaultKind::kStopInside, .at_call = 1});
  SHOAL_EXPECT_OK(storage.CreateDir("/a"));
  EXPECT_FALSE(storage.Rename("/a", "/b").ok());
  EXPECT_FALSE(storage.CreateDir("/c").ok());
  EXPECT_EQ(memory.List("/").value(), std::vector<std::string>{"b"});
}

}  // namespace
}  // namespace shoal::io
