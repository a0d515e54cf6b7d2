#include "shoal/io/memory_storage.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/io/storage.h"
#include "shoal/io/storage_for_test_internal.h"
#include "shoal/io/tree.h"

namespace shoal::io {
namespace {

TEST(MemoryStorageTest, ACrashDropsContentThatWasNotSynced) {
  MemoryStorage storage;
  auto file = storage.Create("/f").value();
  SHOAL_ASSERT_OK(file->WriteAt(0, BytesOf("synced")));
  SHOAL_ASSERT_OK(file->Sync());
  SHOAL_ASSERT_OK(storage.SyncDir("/"));
  SHOAL_ASSERT_OK(file->WriteAt(0, BytesOf("changed")));
  storage.Crash(CrashLoss::kAllUnsynced);
  EXPECT_EQ(ReadText(storage, "/f", 100).value(), "synced");
  EXPECT_EQ(file->Sync().code(), StatusCode::kIoError);
}

TEST(MemoryStorageTest, ACrashDropsNamesThatWereNotSynced) {
  MemoryStorage storage;
  SHOAL_ASSERT_OK(storage.CreateDir("/d"));
  SHOAL_ASSERT_OK(storage.SyncDir("/"));
  SHOAL_ASSERT_OK(WriteTextDurably(storage, "/d/f", "x"));
  storage.Crash(CrashLoss::kAllUnsynced);
  EXPECT_EQ(storage.List("/d").value(), std::vector<std::string>{});
}

TEST(MemoryStorageTest, ACrashUndoesARenameThatWasNotSynced) {
  MemoryStorage storage;
  SHOAL_ASSERT_OK(WriteTextDurably(storage, "/a", "x"));
  SHOAL_ASSERT_OK(storage.SyncDir("/"));
  SHOAL_ASSERT_OK(storage.Rename("/a", "/b"));
  storage.Crash(CrashLoss::kAllUnsynced);
  EXPECT_EQ(storage.List("/").value(), std::vector<std::string>{"a"});
}

TEST(MemoryStorageTest, ACrashMayLoseNothingOrTearContent) {
  for (const bool is_torn : {false, true}) {
    MemoryStorage storage;
    SHOAL_ASSERT_OK(WriteText(storage, "/f", "abcd"));
    storage.Crash(is_torn ? CrashLoss::kTornContent : CrashLoss::kNothing);
    EXPECT_EQ(ReadText(storage, "/f", 100).value(),
              is_torn ? std::string("ab\0\0", 4) : std::string("abcd"));
  }
}

TEST(MemoryStorageTest, ACrashMayReachDirectoriesInAnyOrder) {
  for (const bool is_odd : {false, true}) {
    MemoryStorage storage;
    SHOAL_ASSERT_OK(CreateDirs(storage, "/d"));
    SHOAL_ASSERT_OK(WriteText(storage, "/f", ""));
    SHOAL_ASSERT_OK(WriteText(storage, "/d/g", ""));
    storage.Crash(is_odd ? CrashLoss::kNamesAtOddDepth : CrashLoss::kNamesAtEvenDepth);
    EXPECT_EQ(storage.Kind("/f").value(), is_odd ? EntryKind::kFile : EntryKind::kMissing);
    EXPECT_EQ(storage.Kind("/d/g").value(), is_odd ? EntryKind::kMissing : EntryKind::kFile);
  }
}

TEST(MemoryStorageTest, ACrashReleasesLocks) {
  MemoryStorage storage;
  const auto lock = storage.TryLock("/lock", "one").value();
  storage.Crash(CrashLoss::kNothing);
  const auto second = storage.TryLock("/lock", "two");
  SHOAL_EXPECT_OK(second.status());
}

TEST(MemoryStorageTest, AFullStorageTellsPathNeededAndFreeBytes) {
  MemoryStorage storage(10);
  SHOAL_ASSERT_OK(WriteText(storage, "/a", "123456"));
  const Status status = WriteText(storage, "/b", "123456");
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.ToString().find("\"/b\": no space left; bytes needed: 6, free: 4"),
            std::string::npos)
      << status.ToString();
  SHOAL_ASSERT_OK(storage.RemoveFile("/a"));
  EXPECT_EQ(storage.FreeBytes("/").value(), 10);
}

TEST(MemoryStorageTest, FlipBitChangesOneBit) {
  MemoryStorage storage;
  SHOAL_ASSERT_OK(WriteTextDurably(storage, "/f", "aa"));
  storage.FlipBit("/f", 1);
  EXPECT_EQ(ReadText(storage, "/f", 100).value(), "a`");
}

}  // namespace
}  // namespace shoal::io
