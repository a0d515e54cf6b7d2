#include "shoal/base/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shoal {
namespace {

TEST(ProcessStampTest, IsCurrentHereAndNotInAForkedChild) {
  const ProcessStamp stamp;
  EXPECT_TRUE(stamp.IsCurrent());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(stamp.IsCurrent() || !ProcessStamp().IsCurrent() ? 1 : 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(stamp.IsCurrent());
}

}  // namespace
}  // namespace shoal
