// The promise of the format: whatever happens in a save, at whichever I/O call, what was there
// before can be loaded and `latest` is right.
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

using io::CrashLoss;
using io::FaultKind;

constexpr int64_t kSize = 8;

std::vector<TestTensor> Tensors(float first) {
  return {MakeTensor("w", kSize, first, {4}), MakeTensor("b", 1, first, {})};
}

// What is saved in which state of the root.
struct Scenario {
  std::string name;
  int64_t step;                 // of the save that is disturbed
  std::optional<int64_t> keep;  // of that save
};

// Steps 1 and 2 are there, with values from 1 and 2 on.
std::unique_ptr<io::MemoryStorage> Prepared() {
  auto storage = std::make_unique<io::MemoryStorage>();
  for (const int64_t step : {1, 2}) {
    SHOAL_EXPECT_OK(
        SaveAll(*storage, "/ckpt", step, Tensors(static_cast<float>(step)), {}).status());
  }
  return storage;
}

// The first value of the checkpoint at `dir`, all of whose bytes must be whole.
float LoadWhole(io::Storage& storage, const std::string& dir) {
  const auto reader = Reader::Open(storage, dir);
  EXPECT_TRUE(reader.ok()) << reader.status().ToString();
  if (!reader.ok()) return -1;
  SHOAL_EXPECT_OK((*reader)->Verify());
  const std::vector<float> values = ReadFloats(**reader, "w", 0, kSize).value();
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], values[0] + static_cast<float>(i));
  }
  EXPECT_EQ(ReadFloats(**reader, "b", 0, 1).value()[0], values[0]);
  return values[0];
}

constexpr float kNew = 70;  // first value of the save that is disturbed

// What must hold after the disturbed save ended with `status`.
void ExpectConsistent(io::MemoryStorage& storage, const Scenario& scenario, bool is_saved) {
  const auto latest = FindLatest(storage, "/ckpt");
  ASSERT_TRUE(latest.ok()) << latest.status().ToString();
  // `latest` is always there, and always names a complete checkpoint.
  EXPECT_EQ(storage.Kind("/ckpt/latest").value(), io::EntryKind::kFile);
  for (const std::string& line : latest->skipped) {
    EXPECT_EQ(line.find("named by"), std::string::npos) << line;
  }
  const float value = LoadWhole(storage, latest->dir);
  if (is_saved) {
    EXPECT_EQ(value, kNew);
  } else {
    // The previous one; or the new one, if it became complete before the end.
    EXPECT_TRUE(value == 2 || value == kNew) << value;
  }
  // Every directory with the name of a complete checkpoint is one.
  for (const std::string& name : storage.List("/ckpt").value()) {
    if (ParseStepDirName(name).has_value()) LoadWhole(storage, io::JoinPath("/ckpt", name));
  }
  // The next save works and leaves nothing of the disturbed one.
  SHOAL_ASSERT_OK(
      SaveAll(storage, "/ckpt", 9, Tensors(9), {.save_id = "00000000000000ee"}).status());
  EXPECT_EQ(LoadWhole(storage, FindLatest(storage, "/ckpt").value().dir), 9);
  for (const std::string& name : storage.List("/ckpt").value()) {
    EXPECT_EQ(name.find(".tmp-"), std::string::npos) << name;
    EXPECT_EQ(name.find(".old-"), std::string::npos) << name;
  }
  if (!scenario.keep.has_value()) {
    EXPECT_EQ(LoadWhole(storage, "/ckpt/step-00000001"), 1);
  }
}

class CrashTest : public testing::TestWithParam<Scenario> {
 protected:
  static Status DisturbedSave(io::Storage& storage) {
    const SaveOptions options{.save_id = "00000000000000dd", .keep = GetParam().keep};
    return SaveAll(storage, "/ckpt", GetParam().step, Tensors(kNew), options).status();
  }
  // I/O calls of the save if nothing disturbs it.
  static int64_t NumCalls() {
    const auto memory = Prepared();
    io::FaultyStorage storage(memory.get(), {});
    SHOAL_EXPECT_OK(DisturbedSave(storage));
    return storage.num_calls();
  }
};

TEST_P(CrashTest, ADyingProcessLeavesAConsistentRoot) {
  const int64_t num_calls = NumCalls();
  ASSERT_GE(num_calls, 30);
  for (const FaultKind kind : {FaultKind::kStop, FaultKind::kStopInside}) {
    for (const CrashLoss loss :
         {CrashLoss::kAllUnsynced, CrashLoss::kNothing, CrashLoss::kNamesAtOddDepth,
          CrashLoss::kNamesAtEvenDepth, CrashLoss::kTornContent}) {
      for (int64_t call = 0; call < num_calls; ++call) {
        SCOPED_TRACE("call " + std::to_string(call) + ", kind " +
                     std::to_string(static_cast<int>(kind)) + ", loss " +
                     std::to_string(static_cast<int>(loss)));
        const auto memory = Prepared();
        io::FaultyStorage storage(memory.get(), {.kind = kind, .at_call = call});
        const Status status = DisturbedSave(storage);
        memory->Crash(loss);
        ExpectConsistent(*memory, GetParam(), status.ok());
      }
    }
  }
}

TEST_P(CrashTest, AFailingCallLeavesAConsistentRootAndNoTemporaryFiles) {
  const int64_t num_calls = NumCalls();
  for (const FaultKind kind : {FaultKind::kError, FaultKind::kShortWrite}) {
    for (int64_t call = 0; call < num_calls; ++call) {
      SCOPED_TRACE("call " + std::to_string(call) + ", kind " +
                   std::to_string(static_cast<int>(kind)));
      const auto memory = Prepared();
      io::FaultyStorage storage(memory.get(),
                                {kind, call, Status::IoError("write", "No space left on device")});
      const Status status = DisturbedSave(storage);
      if (!status.ok()) {
        EXPECT_EQ(status.message(), "No space left on device");
        EXPECT_NE(status.ToString().find("/ckpt"), std::string::npos) << status.ToString();
        // The disturbed save's own files are gone at once, so that training can go on.
        for (const std::string& name : memory->List("/ckpt").value()) {
          EXPECT_EQ(name.find(".tmp-"), std::string::npos) << name;
        }
      }
      ExpectConsistent(*memory, GetParam(), status.ok());
    }
  }
}

TEST_P(CrashTest, ASuccessfulSaveSurvivesTheLossOfEverythingUnsynced) {
  const auto memory = Prepared();
  SHOAL_ASSERT_OK(DisturbedSave(*memory));
  memory->Crash(CrashLoss::kAllUnsynced);
  const Latest latest = FindLatest(*memory, "/ckpt").value();
  EXPECT_EQ(latest.dir, io::JoinPath("/ckpt", StepDirName(GetParam().step)));
  EXPECT_EQ(LoadWhole(*memory, latest.dir), kNew);
}

INSTANTIATE_TEST_SUITE_P(All, CrashTest,
                         testing::Values(Scenario{"NewStep", 3, {}}, Scenario{"SameStep", 2, {}},
                                         Scenario{"KeepOne", 3, 1},
                                         Scenario{"SameStepKeepOne", 2, 1}),
                         [](const auto& scenario) { return scenario.param.name; });

}  // namespace
}  // namespace shoal::ckpt
