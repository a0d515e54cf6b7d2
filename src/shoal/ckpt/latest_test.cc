#include "shoal/ckpt/latest.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/io/memory_storage.h"
#include "shoal/io/storage_for_test_internal.h"
#include "shoal/io/tree.h"

namespace shoal::ckpt {
namespace {

class LatestTest : public testing::Test {
 protected:
  void AddDir(const std::string& name, bool is_complete) {
    SHOAL_ASSERT_OK(io::CreateDirs(storage_, "/ckpt/" + name));
    if (is_complete) {
      SHOAL_ASSERT_OK(io::WriteText(storage_, "/ckpt/" + name + "/index.json", "{}"));
    }
  }
  void PointTo(std::string_view text) {
    SHOAL_ASSERT_OK(io::WriteText(storage_, "/ckpt/latest", text));
  }

  io::MemoryStorage storage_;
};

TEST_F(LatestTest, NamesAreParsedStrictly) {
  EXPECT_EQ(StepDirName(1000), "step-00001000");
  EXPECT_EQ(StepDirName(123456789), "step-123456789");
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const int64_t step : {int64_t{0}, int64_t{99999999}, int64_t{100000000}, kMax}) {
    EXPECT_EQ(ParseStepDirName(StepDirName(step)), step);
  }
  for (const char* name :
       {"step-1", "step-000000001", "step-0000000x", "step--0000001", "step-", "Step-00000001",
        "step-00000001/", "step-00000001.tmp-0", "step-99999999999999999999"}) {
    EXPECT_EQ(ParseStepDirName(name), std::nullopt) << name;
  }
}

TEST_F(LatestTest, FollowsLatestEvenWhereAHigherStepExists) {
  AddDir("step-00000001", true);
  AddDir("step-00000002", true);
  PointTo("step-00000001\n");
  EXPECT_EQ(FindLatest(storage_, "/ckpt").value().dir, "/ckpt/step-00000001");
}

TEST_F(LatestTest, WithoutLatestTakesTheHighestCompleteOneAndNamesTheRest) {
  AddDir("step-00000009", true);
  AddDir("step-00000010", false);
  AddDir("step-00000011.tmp-00000000000000aa", true);
  AddDir("step-00000012.tmp-unknown", true);
  AddDir("checkpoint-13", true);
  const Latest latest = FindLatest(storage_, "/ckpt").value();
  EXPECT_EQ(latest.dir, "/ckpt/step-00000009");
  EXPECT_EQ(latest.skipped,
            (std::vector<std::string>{"\"step-00000011.tmp-00000000000000aa\": an unfinished save",
                                      "\"step-00000010\": no index.json"}));
}

TEST_F(LatestTest, ALatestThatNamesNothingCompleteIsPassedOver) {
  AddDir("step-00000001", true);
  for (const char* text : {"step-00000002\n", "", "../../etc\n", "step-00000001x"}) {
    PointTo(text);
    const Latest latest = FindLatest(storage_, "/ckpt").value();
    EXPECT_EQ(latest.dir, "/ckpt/step-00000001");
    EXPECT_EQ(latest.skipped.size(), 1U) << text;
    SHOAL_ASSERT_OK(storage_.RemoveFile("/ckpt/latest"));
  }
}

TEST_F(LatestTest, ACheckpointMovedAsideServesWhereItsPlaceIsEmpty) {
  AddDir("step-00000001", true);
  AddDir("step-00000002.old-00000000000000aa", true);
  PointTo("step-00000002\n");
  EXPECT_EQ(FindLatest(storage_, "/ckpt").value().dir, "/ckpt/step-00000002.old-00000000000000aa");
  AddDir("step-00000002", true);
  EXPECT_EQ(FindLatest(storage_, "/ckpt").value().dir, "/ckpt/step-00000002");
}

TEST_F(LatestTest, ACheckpointItselfIsItsOwnLatest) {
  AddDir("step-00000001", true);
  EXPECT_EQ(FindLatest(storage_, "/ckpt/step-00000001").value().dir, "/ckpt/step-00000001");
}

TEST_F(LatestTest, NothingCompleteIsNotFoundAndNamesWhatThereIs) {
  EXPECT_EQ(FindLatest(storage_, "/ckpt").status().code(), StatusCode::kNotFound);
  AddDir("step-00000001", false);
  const Status status = FindLatest(storage_, "/ckpt").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("\"step-00000001\": no index.json"), std::string::npos)
      << status.ToString();
}

}  // namespace
}  // namespace shoal::ckpt
