#include "shoal/ckpt/saving.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/ckpt/checkpoint_for_test_internal.h"
#include "shoal/ckpt/latest.h"
#include "shoal/ckpt/reader.h"
#include "shoal/io/faulty_storage.h"
#include "shoal/io/memory_storage.h"
#include "shoal/io/storage.h"
#include "shoal/io/storage_for_test_internal.h"
#include "shoal/io/tree.h"

namespace shoal::ckpt {
namespace {

constexpr const char* kId = "00000000000000aa";
constexpr const char* kOtherId = "00000000000000bb";

std::vector<TestTensor> Tensors(float first) { return {MakeTensor("w", 8, first, {4})}; }

class SavingTest : public testing::Test {
 protected:
  Status Save(int64_t step, std::optional<int64_t> keep = std::nullopt, float first = 1) {
    return SaveAll(storage_, "/ckpt", step, Tensors(first), {.keep = keep}).status();
  }
  // Names in the root other than "lock" and "latest".
  std::vector<std::string> Dirs() {
    std::vector<std::string> names = storage_.List("/ckpt").value();
    std::erase_if(names, [](const auto& name) { return name == "lock" || name == "latest"; });
    return names;
  }
  float FirstValue() {
    const auto reader = Reader::Open(storage_, FindLatest(storage_, "/ckpt").value().dir).value();
    SHOAL_EXPECT_OK(reader->Verify());
    return ReadFloats(*reader, "w", 0, 1).value()[0];
  }

  io::MemoryStorage storage_;
};

TEST_F(SavingTest, SavesOneAfterTheOtherAndPointsToTheLast) {
  SHOAL_ASSERT_OK(Save(1, {}, 1));
  SHOAL_ASSERT_OK(Save(2, {}, 2));
  EXPECT_EQ(Dirs(), (std::vector<std::string>{"step-00000001", "step-00000002"}));
  EXPECT_EQ(FirstValue(), 2);
}

TEST_F(SavingTest, TheSameStepIsReplaced) {
  SHOAL_ASSERT_OK(Save(1, {}, 1));
  SHOAL_ASSERT_OK(Save(1, {}, 5));
  EXPECT_EQ(Dirs(), std::vector<std::string>{"step-00000001"});
  EXPECT_EQ(FirstValue(), 5);
}

TEST_F(SavingTest, KeepLeavesTheNewOneAndTheNearestBeforeIt) {
  for (int64_t step = 1; step <= 4; ++step) SHOAL_ASSERT_OK(Save(step));
  SHOAL_ASSERT_OK(Save(5, 3));
  EXPECT_EQ(Dirs(), (std::vector<std::string>{"step-00000003", "step-00000004", "step-00000005"}));
  SHOAL_ASSERT_OK(Save(6, 1));
  EXPECT_EQ(Dirs(), std::vector<std::string>{"step-00000006"});
}

TEST_F(SavingTest, KeepNeverDeletesTheNewOneWhenTheRunWentBack) {
  SHOAL_ASSERT_OK(Save(3));
  SHOAL_ASSERT_OK(Save(8));
  SHOAL_ASSERT_OK(Save(9));
  SHOAL_ASSERT_OK(Save(4, 2));
  EXPECT_EQ(Dirs(), (std::vector<std::string>{"step-00000003", "step-00000004"}));
  SHOAL_ASSERT_OK(Save(9));
  SHOAL_ASSERT_OK(Save(1, 2));
  EXPECT_EQ(Dirs(), (std::vector<std::string>{"step-00000001", "step-00000003"}));
}

TEST_F(SavingTest, ForeignFilesInTheRootStay) {
  SHOAL_ASSERT_OK(io::CreateDirs(storage_, "/ckpt/mine"));
  SHOAL_ASSERT_OK(io::CreateDirs(storage_, "/ckpt/step-00000001.tmp-mine"));
  SHOAL_ASSERT_OK(Save(2, 1));
  EXPECT_EQ(Dirs(), (std::vector<std::string>{"mine", "step-00000001.tmp-mine", "step-00000002"}));
}

TEST_F(SavingTest, BadArgumentsAreRefusedAndLeaveNothing) {
  EXPECT_EQ(Save(-1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Save(1, 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Saving::Begin(storage_, "/ckpt", 1, "../x").status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Dirs(), std::vector<std::string>{});
}

TEST_F(SavingTest, ASecondJobIsRefusedAndToldWhoSaves) {
  const auto first = Saving::Begin(storage_, "/ckpt", 1, kId).value();
  const Status second = Saving::Begin(storage_, "/ckpt", 2, kOtherId).status();
  EXPECT_EQ(second.code(), StatusCode::kIoError);
  EXPECT_NE(second.ToString().find(std::string("save ") + kId), std::string::npos)
      << second.ToString();
  EXPECT_EQ(storage_.Kind(first->tmp_dir()).value(), io::EntryKind::kDirectory);
  SHOAL_ASSERT_OK(first->Abort());
  SHOAL_EXPECT_OK(Saving::Begin(storage_, "/ckpt", 2, kOtherId).status());
}

TEST_F(SavingTest, WithoutLocksASaveWorksAndWarns) {
  // Kind of the root, create, sync (3 more for its parent), then the lock.
  SHOAL_ASSERT_OK(io::CreateDirs(storage_, "/ckpt"));
  io::FaultyStorage no_locks(
      &storage_, {io::FaultKind::kError, 1, Status::Unsupported("lock", "no locks here")});
  const auto saved = SaveAll(no_locks, "/ckpt", 1, Tensors(1));
  SHOAL_ASSERT_OK(saved.status());
  ASSERT_EQ(saved->warnings.size(), 1U);
  EXPECT_NE(saved->warnings[0].find("no locks here"), std::string::npos);
}

TEST_F(SavingTest, AbortAndDestructionRemoveTheTemporaryDirectory) {
  auto saving = Saving::Begin(storage_, "/ckpt", 1, kId).value();
  SHOAL_ASSERT_OK(WriteRankFile(storage_, saving->tmp_dir(), 0, {}, "{}").status());
  SHOAL_ASSERT_OK(saving->Abort());
  EXPECT_EQ(Dirs(), std::vector<std::string>{});
  EXPECT_EQ(saving->Commit(TestRun(1), {}, {}).status().code(), StatusCode::kInvalidArgument);
  saving = Saving::Begin(storage_, "/ckpt", 1, kId).value();
  saving.reset();
  EXPECT_EQ(Dirs(), std::vector<std::string>{});
}

TEST_F(SavingTest, LeftoversOfCrashesAreRemovedByTheNextSave) {
  SHOAL_ASSERT_OK(Save(1));
  SHOAL_ASSERT_OK(io::CreateDirs(storage_, "/ckpt/step-00000002.tmp-00000000000000cc/deep"));
  SHOAL_ASSERT_OK(io::WriteText(storage_, "/ckpt/latest.tmp-00000000000000cc", "step"));
  SHOAL_ASSERT_OK(io::CreateDirs(storage_, "/ckpt/step-00000001.old-00000000000000cc"));
  SHOAL_ASSERT_OK(Save(3));
  EXPECT_EQ(Dirs(), (std::vector<std::string>{"step-00000001", "step-00000003"}));
}

TEST_F(SavingTest, ACheckpointMovedAsideIsPutBackByTheNextSave) {
  SHOAL_ASSERT_OK(Save(1));
  SHOAL_ASSERT_OK(
      storage_.Rename("/ckpt/step-00000001", "/ckpt/step-00000001.old-00000000000000cc"));
  SHOAL_ASSERT_OK(Save(2));
  EXPECT_EQ(Dirs(), (std::vector<std::string>{"step-00000001", "step-00000002"}));
}

TEST_F(SavingTest, MissingElementsAreRefusedAndLeaveThePreviousCheckpoint) {
  SHOAL_ASSERT_OK(Save(1));
  const auto saving = Saving::Begin(storage_, "/ckpt", 2, kId).value();
  const auto tensors = Tensors(1);
  // Rank 1 of 2 never wrote.
  const std::vector<std::string> records = {
      WriteRankFile(storage_, saving->tmp_dir(), 0, PiecesOfRank(tensors, 0, 2), "{}").value()};
  const Status status = saving->Commit(TestRun(1), records, {}).status();
  EXPECT_NE(status.ToString().find("elements [4:8] are in no piece"), std::string::npos)
      << status.ToString();
  EXPECT_EQ(Dirs(), std::vector<std::string>{"step-00000001"});
}

TEST_F(SavingTest, AFileThatRankZeroDoesNotSeeIsExplained) {
  const auto saving = Saving::Begin(storage_, "/ckpt", 1, kId).value();
  io::MemoryStorage elsewhere;  // rank 1's own disk
  SHOAL_ASSERT_OK(io::CreateDirs(elsewhere, saving->tmp_dir()));
  const auto tensors = Tensors(1);
  const std::vector<std::string> records = {
      WriteRankFile(storage_, saving->tmp_dir(), 0, PiecesOfRank(tensors, 0, 2), "{}").value(),
      WriteRankFile(elsewhere, saving->tmp_dir(), 1, PiecesOfRank(tensors, 1, 2), "{}").value()};
  const Status status = saving->Commit(TestRun(2), records, {}).status();
  EXPECT_NE(status.ToString().find("rank 1 wrote it, rank 0 does not see it"), std::string::npos)
      << status.ToString();
}

TEST_F(SavingTest, StateComesBackByteForByte) {
  const auto saving = Saving::Begin(storage_, "/ckpt", 1, kId).value();
  const std::string state = "{ \"pcg64\":340282366920938463463374607431768211455,\"x\":1e-400 }";
  RunInfo run = TestRun(1);
  run.state_json = state;
  const std::vector<std::string> records = {
      WriteRankFile(storage_, saving->tmp_dir(), 0, {}, state).value()};
  SHOAL_ASSERT_OK(saving->Commit(run, records, {}).status());
  const auto reader = Reader::Open(storage_, "/ckpt/step-00000001").value();
  EXPECT_EQ(reader->manifest().run.state_json, state);
  EXPECT_EQ(reader->manifest().files[0].state_json, state);
}

TEST_F(SavingTest, BytesOnDiskAreTheLogicalBytesAndSmallHeaders) {
  // C103: views of one storage are saved as what they are.
  const TestTensor all = MakeTensor("all", 2 << 20, 1, {});
  std::vector<PieceToWrite> views;
  for (int64_t i = 0; i < 8; ++i) {
    views.push_back({.tensor = "view" + std::to_string(i),
                     .role = "param",
                     .dtype = DType::kFloat32,
                     .global_shape = {1 << 18},
                     .dim_order = {},
                     .flat_begin = 0,
                     .flat_end = 1 << 18,
                     .data = all.values.data() + i * (1 << 18)});
  }
  const auto saving = Saving::Begin(storage_, "/ckpt", 1, kId).value();
  const int64_t before = storage_.FreeBytes("/").value();
  const std::vector<std::string> records = {
      WriteRankFile(storage_, saving->tmp_dir(), 0, views, "{}").value()};
  SHOAL_ASSERT_OK(saving->Commit(TestRun(1), records, {}).status());
  const int64_t used = before - storage_.FreeBytes("/").value();
  EXPECT_LE(used, (8 << 20) * 102 / 100);
  EXPECT_GE(used, 8 << 20);
}

}  // namespace
}  // namespace shoal::ckpt
