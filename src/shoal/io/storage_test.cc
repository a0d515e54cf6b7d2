// What every backend must do; a backend is a line at the end.
#include "shoal/io/storage.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/io/faulty_storage.h"
#include "shoal/io/memory_storage.h"
#include "shoal/io/posix_storage.h"
#include "shoal/io/storage_for_test_internal.h"
#include "shoal/io/tree.h"

namespace shoal::io {
namespace {

// A storage and an empty directory in it.
struct Place {
  std::unique_ptr<Storage> storage;
  std::string dir;
  std::unique_ptr<TempDir> temp_dir;
  std::unique_ptr<Storage> inner;
};

Place PosixPlace() {
  auto temp_dir = std::make_unique<TempDir>();
  const std::string dir = temp_dir->path();
  return {MakePosixStorage(), dir, std::move(temp_dir), nullptr};
}

Place MemoryPlace() {
  auto storage = std::make_unique<MemoryStorage>();
  EXPECT_TRUE(storage->CreateDir("/d").ok());
  return {std::move(storage), "/d", nullptr, nullptr};
}

Place FaultlessPlace() {
  Place place = MemoryPlace();
  place.inner = std::move(place.storage);
  place.storage = std::make_unique<FaultyStorage>(place.inner.get(), Fault());
  return place;
}

struct Backend {
  std::string name;
  std::function<Place()> make;
};

class StorageTest : public testing::TestWithParam<Backend> {
 protected:
  std::string At(const std::string& name) const { return JoinPath(place_.dir, name); }
  Storage& storage() { return *place_.storage; }
  EntryKind KindOf(const std::string& name) { return storage().Kind(At(name)).value(); }

  const Place place_ = GetParam().make();
};

TEST_P(StorageTest, WritesAtAnyOffsetAndReadsBack) {
  {
    auto file = storage().Create(At("f")).value();
    SHOAL_ASSERT_OK(file->WriteAt(4, BytesOf("efgh")));
    SHOAL_ASSERT_OK(file->WriteAt(0, BytesOf("abcd")));
    SHOAL_ASSERT_OK(file->WriteAt(2, BytesOf("XY")));
    SHOAL_ASSERT_OK(file->Sync());
    EXPECT_EQ(file->SizeBytes().value(), 8);
  }
  EXPECT_EQ(ReadText(storage(), At("f"), 100).value(), "abXYefgh");
}

TEST_P(StorageTest, HolesReadAsZeros) {
  auto file = storage().Create(At("f")).value();
  SHOAL_ASSERT_OK(file->WriteAt(2, BytesOf("x")));
  EXPECT_EQ(ReadText(storage(), At("f"), 100).value(), std::string("\0\0x", 3));
}

TEST_P(StorageTest, ReadingBeyondTheEndIsCorruptionAndNamesTheFile) {
  SHOAL_ASSERT_OK(WriteText(storage(), At("short"), "abc"));
  const auto file = storage().OpenToRead(At("short")).value();
  std::array<std::byte, 2> bytes = {};
  SHOAL_EXPECT_OK(file->ReadAt(1, bytes));
  const Status status = file->ReadAt(2, bytes);
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_NE(status.message().find("short"), std::string::npos) << status.ToString();
  EXPECT_EQ(file->ReadAt(-1, bytes).code(), StatusCode::kInvalidArgument);
}

TEST_P(StorageTest, CreateRefusesWhatExistsAndOpenWhatDoesNot) {
  SHOAL_ASSERT_OK(WriteText(storage(), At("f"), ""));
  EXPECT_EQ(storage().Create(At("f")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(storage().OpenToRead(At("g")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(storage().Create(At("no/f")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(storage().CreateDir(At("f")).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(storage().CreateDir(At("no/d")).code(), StatusCode::kNotFound);
}

TEST_P(StorageTest, ListsSortedNamesAndTellsKinds) {
  SHOAL_ASSERT_OK(WriteText(storage(), At("b"), ""));
  SHOAL_ASSERT_OK(storage().CreateDir(At("c")));
  SHOAL_ASSERT_OK(WriteText(storage(), At("a"), ""));
  EXPECT_EQ(storage().List(place_.dir).value(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(KindOf("a"), EntryKind::kFile);
  EXPECT_EQ(KindOf("c"), EntryKind::kDirectory);
  EXPECT_EQ(KindOf("d"), EntryKind::kMissing);
  EXPECT_EQ(storage().List(At("d")).status().code(), StatusCode::kNotFound);
}

TEST_P(StorageTest, RenameReplacesFilesButNoFullDirectory) {
  SHOAL_ASSERT_OK(WriteText(storage(), At("new"), "new"));
  SHOAL_ASSERT_OK(WriteText(storage(), At("old"), "old"));
  SHOAL_ASSERT_OK(storage().Rename(At("new"), At("old")));
  EXPECT_EQ(ReadText(storage(), At("old"), 9).value(), "new");
  EXPECT_EQ(KindOf("new"), EntryKind::kMissing);

  SHOAL_ASSERT_OK(storage().CreateDir(At("d1")));
  SHOAL_ASSERT_OK(storage().CreateDir(At("d2")));
  SHOAL_ASSERT_OK(WriteText(storage(), At("d2/f"), ""));
  EXPECT_EQ(storage().Rename(At("d1"), At("d2")).code(), StatusCode::kInvalidArgument);
  SHOAL_ASSERT_OK(storage().Rename(At("d2"), At("d1")));
  EXPECT_EQ(KindOf("d1/f"), EntryKind::kFile);
  EXPECT_EQ(storage().Rename(At("nothing"), At("x")).code(), StatusCode::kNotFound);
}

TEST_P(StorageTest, RemovesFilesAndEmptyDirectoriesOnly) {
  SHOAL_ASSERT_OK(storage().CreateDir(At("d")));
  SHOAL_ASSERT_OK(WriteText(storage(), At("d/f"), ""));
  EXPECT_EQ(storage().RemoveDir(At("d")).code(), StatusCode::kInvalidArgument);
  SHOAL_ASSERT_OK(storage().RemoveFile(At("d/f")));
  EXPECT_EQ(storage().RemoveFile(At("d/f")).code(), StatusCode::kNotFound);
  SHOAL_ASSERT_OK(storage().RemoveDir(At("d")));
  EXPECT_EQ(KindOf("d"), EntryKind::kMissing);
}

TEST_P(StorageTest, ALockHasOneHolderWhomARefusalNames) {
  auto lock = storage().TryLock(At("lock"), "job one").value();
  const auto second = storage().TryLock(At("lock"), "job two");
  EXPECT_EQ(second.status().code(), StatusCode::kIoError);
  EXPECT_NE(second.status().message().find("job one"), std::string::npos)
      << second.status().ToString();
  lock.reset();
  SHOAL_EXPECT_OK(storage().TryLock(At("lock"), "job two").status());
}

TEST_P(StorageTest, AnOpenFileOutlivesItsName) {
  auto file = storage().Create(At("f")).value();
  SHOAL_ASSERT_OK(storage().RemoveFile(At("f")));
  SHOAL_EXPECT_OK(file->WriteAt(0, BytesOf("x")));
  EXPECT_EQ(file->SizeBytes().value(), 1);
}

TEST_P(StorageTest, TellsFreeSpaceAndSyncsDirectories) {
  EXPECT_GT(storage().FreeBytes(place_.dir).value(), 0);
  SHOAL_EXPECT_OK(storage().SyncDir(place_.dir));
  EXPECT_EQ(storage().SyncDir(At("no")).code(), StatusCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(All, StorageTest,
                         testing::Values(Backend{"Posix", PosixPlace},
                                         Backend{"Memory", MemoryPlace},
                                         Backend{"Faultless", FaultlessPlace}),
                         [](const auto& backend) { return backend.param.name; });

}  // namespace
}  // namespace shoal::io
