#include "shoal/io/posix_storage.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>

#include "shoal/base/status.h"
#include "shoal/io/storage.h"
#include "shoal/io/storage_for_test_internal.h"
#include "shoal/io/tree.h"

namespace shoal::io {
namespace {

TEST(PosixStorageTest, AFullDiskIsAnIoErrorWithItsPath) {
  const auto storage = MakePosixStorage();
  const TempDir dir;
  // Every write to /dev/full fails as on a full disk; TryLock writes its owner.
  ASSERT_EQ(symlink("/dev/full", JoinPath(dir.path(), "full").c_str()), 0);
  EXPECT_EQ(storage->Kind(JoinPath(dir.path(), "full")).value(), EntryKind::kOther);
  const auto lock = storage->TryLock(JoinPath(dir.path(), "full"), "me");
  EXPECT_EQ(lock.status().code(), StatusCode::kIoError) << lock.status().ToString();
  EXPECT_NE(lock.status().message().find(dir.path()), std::string::npos);
}

TEST(PosixStorageTest, AnImmutablePlaceIsAnIoErrorWithItsPath) {
  const auto storage = MakePosixStorage();
  const Status status = storage->CreateDir("/proc/shoal-test");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("/proc/shoal-test"), std::string::npos) << status.ToString();
}

TEST(PosixStorageTest, ADanglingLinkIsNotMissing) {
  const auto storage = MakePosixStorage();
  const TempDir dir;
  ASSERT_EQ(symlink("nowhere", JoinPath(dir.path(), "link").c_str()), 0);
  EXPECT_EQ(storage->Kind(JoinPath(dir.path(), "link")).value(), EntryKind::kOther);
  EXPECT_EQ(storage->Kind(JoinPath(dir.path(), "nowhere")).value(), EntryKind::kMissing);
}

TEST(PosixStorageTest, ALockGoesWhenItsProcessIsKilled) {
  const auto storage = MakePosixStorage();
  const TempDir dir;
  const std::string path = JoinPath(dir.path(), "lock");
  int ready[2] = {};
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto lock = MakePosixStorage()->TryLock(path, "child");
    const char byte = lock.ok() ? 'y' : 'n';
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  const auto refused = storage->TryLock(path, "parent");
  EXPECT_NE(refused.status().message().find("child"), std::string::npos)
      << refused.status().ToString();
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  SHOAL_EXPECT_OK(storage->TryLock(path, "parent").status());
  close(ready[0]);
  close(ready[1]);
}

TEST(PosixStorageTest, AReleasedLockDoesNotLiveOnInForkedChildren) {
  const auto storage = MakePosixStorage();
  const TempDir dir;
  const std::string path = JoinPath(dir.path(), "lock");
  auto lock = storage->TryLock(path, "first").value();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (true) pause();
  }
  lock.reset();
  SHOAL_EXPECT_OK(storage->TryLock(path, "second").status());
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace shoal::io
