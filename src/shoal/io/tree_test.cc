#include "shoal/io/tree.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/io/memory_storage.h"
#include "shoal/io/storage.h"
#include "shoal/io/storage_for_test_internal.h"

namespace shoal::io {
namespace {

TEST(TreeTest, JoinsAndSplitsPaths) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
  EXPECT_EQ(ParentDir("a/b"), "a");
  EXPECT_EQ(ParentDir("a//b/"), "a");
  EXPECT_EQ(ParentDir("/a"), "/");
  EXPECT_EQ(ParentDir("/"), "/");
  EXPECT_EQ(ParentDir("a"), ".");
  EXPECT_EQ(ParentDir("."), ".");
}

TEST(TreeTest, CreatesMissingDirectoriesDurably) {
  MemoryStorage storage;
  SHOAL_ASSERT_OK(CreateDirs(storage, "/a/b/c"));
  SHOAL_ASSERT_OK(CreateDirs(storage, "/a/b/c"));
  storage.Crash(CrashLoss::kAllUnsynced);
  EXPECT_EQ(storage.Kind("/a/b/c").value(), EntryKind::kDirectory);
}

TEST(TreeTest, RefusesAFileOnTheWay) {
  MemoryStorage storage;
  SHOAL_ASSERT_OK(WriteText(storage, "/a", ""));
  const Status status = CreateDirs(storage, "/a/b");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("\"/a\""), std::string::npos) << status.ToString();
}

TEST(TreeTest, RemovesATreeAndNothingBesides) {
  MemoryStorage storage;
  SHOAL_ASSERT_OK(CreateDirs(storage, "/keep"));
  SHOAL_ASSERT_OK(CreateDirs(storage, "/d/e/f"));
  SHOAL_ASSERT_OK(WriteText(storage, "/d/e/file", ""));
  SHOAL_ASSERT_OK(RemoveTree(storage, "/d"));
  SHOAL_ASSERT_OK(RemoveTree(storage, "/d"));
  EXPECT_EQ(storage.List("/").value(), std::vector<std::string>{"keep"});
}

TEST(TreeTest, ReadTextRefusesLargeFiles) {
  MemoryStorage storage;
  SHOAL_ASSERT_OK(WriteTextDurably(storage, "/f", "12345"));
  EXPECT_EQ(ReadText(storage, "/f", 5).value(), "12345");
  EXPECT_EQ(ReadText(storage, "/f", 4).status().code(), StatusCode::kCorruption);
  EXPECT_EQ(WriteTextDurably(storage, "/f", "").code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace shoal::io
