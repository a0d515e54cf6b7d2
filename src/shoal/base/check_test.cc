#include "shoal/base/check.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

namespace shoal {
namespace {

TEST(CheckTest, APassingCheckEvaluatesItsConditionOnceAndItsDetailNever) {
  int conditions = 0;
  int details = 0;
  const auto detail = [&details]() {
    ++details;
    return std::string("unused");
  };
  SHOAL_CHECK(++conditions == 1, detail());
  EXPECT_EQ(conditions, 1);
  EXPECT_EQ(details, 0);
}

TEST(CheckDeathTest, AFailedCheckNamesPlaceConditionAndDetail) {
  EXPECT_DEATH(SHOAL_CHECK(1 + 1 == 3, "arithmetic"),
               "check_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3 arithmetic");
}

TEST(CheckDeathTest, AFailedCheckNamesTheRank) {
  const auto fail_as_rank_5 = [] {
    setenv("RANK", "5", 1);
    SHOAL_CHECK(false);
  };
  EXPECT_DEATH(fail_as_rank_5(), "\\[shoal r5 F\\]");
}

TEST(CheckDeathTest, DebugChecksFollowTheBuild) {
#ifdef NDEBUG
  bool evaluated = false;
  SHOAL_DCHECK(evaluated = true);
  EXPECT_FALSE(evaluated);
#else
  EXPECT_DEATH(SHOAL_DCHECK(false), "check failed");
#endif
}

}  // namespace
}  // namespace shoal
