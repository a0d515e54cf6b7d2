#include "shoal/base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace shoal {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return Status::InvalidArgument("half", "value is odd");
  return value / 2;
}

Result<int> Quarter(int value) {
  SHOAL_ASSIGN_OR_RETURN(const int half, Half(value));
  SHOAL_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Status CheckQuarter(int value, int expected) {
  SHOAL_RETURN_IF_ERROR(Quarter(value).status());
  if (*Quarter(value) != expected) return Status::Internal("check", "differs");
  return Status();
}

TEST(StatusTest, DefaultIsOk) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.ToString(), "ok");
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.operation(), "");
}

TEST(StatusTest, TextHasOperationMessageAndContextOutermostLast) {
  const Status status = Status::IoError("read", "disk is gone")
                            .WithContext("reading shard 3 of 8")
                            .WithContext("loading \"ckpt\"");
  EXPECT_EQ(status.ToString(), "[read] disk is gone (reading shard 3 of 8; loading \"ckpt\")");
  EXPECT_EQ(status.message(), "disk is gone");
  EXPECT_EQ(status.code(), StatusCode::kIoError);
}

TEST(StatusTest, ContextLeavesTheOriginalAndOkAlone) {
  const Status status = Status::NotFound("open", "no such file");
  const Status more = status.WithContext("here");
  EXPECT_EQ(status.ToString(), "[open] no such file");
  EXPECT_NE(status, more);
  EXPECT_TRUE(Status().WithContext("nothing happened").ok());
}

TEST(StatusTest, EveryFactoryGivesItsCodeAndEveryCodeHasAName) {
  EXPECT_EQ(StatusCodeName(StatusCode::kOk), "Ok");
  EXPECT_EQ(StatusCodeName(Status::InvalidArgument("", "x").code()), "InvalidArgument");
  EXPECT_EQ(StatusCodeName(Status::NotFound("", "x").code()), "NotFound");
  EXPECT_EQ(StatusCodeName(Status::Corruption("", "x").code()), "Corruption");
  EXPECT_EQ(StatusCodeName(Status::IoError("", "x").code()), "IoError");
  EXPECT_EQ(StatusCodeName(Status::Unsupported("", "x").code()), "Unsupported");
  EXPECT_EQ(StatusCodeName(Status::OutOfMemory("", "x").code()), "OutOfMemory");
  EXPECT_EQ(StatusCodeName(Status::Timeout("", "x").code()), "Timeout");
  EXPECT_EQ(StatusCodeName(Status::Cancelled("", "x").code()), "Cancelled");
  EXPECT_EQ(StatusCodeName(Status::Internal("", "x").code()), "Internal");
}

TEST(StatusTest, WithoutOperationThereAreNoBrackets) {
  EXPECT_EQ(Status::Internal("", "odd").ToString(), "odd");
}

TEST(ResultTest, CarriesValueOrStatus) {
  EXPECT_EQ(Half(6).value(), 3);
  EXPECT_EQ(Half(3).status().ToString(), "[half] value is odd");
  EXPECT_FALSE(Half(3).ok());
}

TEST(ResultTest, MacrosPassFailuresOut) {
  EXPECT_EQ(Quarter(12).value(), 3);
  EXPECT_EQ(Quarter(6).status().message(), "value is odd");
  EXPECT_TRUE(CheckQuarter(8, 2).ok());
  EXPECT_EQ(CheckQuarter(6, 1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckQuarter(8, 3).code(), StatusCode::kInternal);
}

TEST(ResultTest, MovesOutWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 7);
}

TEST(ResultDeathTest, TakingTheValueOfAFailureAbortsWithItsText) {
  EXPECT_DEATH({ (void)Half(3).value(); }, "\\[half\\] value is odd");
}

TEST(ResultDeathTest, AnOkStatusIsNoResult) {
  EXPECT_DEATH({ const Result<int> result{Status()}; }, "check failed");
}

}  // namespace
}  // namespace shoal
