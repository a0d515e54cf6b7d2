#include "shoal/ckpt/reader.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/ckpt/checkpoint_for_test_internal.h"
#include "shoal/io/memory_storage.h"
#include "shoal/io/posix_storage.h"
#include "shoal/io/storage_for_test_internal.h"
#include "shoal/io/tree.h"

namespace shoal::ckpt {
namespace {

constexpr const char* kDir = "/ckpt/step-00000001";
constexpr int64_t kHeader = 4096;

std::unique_ptr<Reader> OpenSaved(io::Storage& storage, const std::vector<TestTensor>& tensors,
                                  int64_t num_ranks = 2) {
  SHOAL_EXPECT_OK(SaveAll(storage, "/ckpt", 1, tensors, {.num_ranks = num_ranks}).status());
  return Reader::Open(storage, kDir).value();
}

RC_GTEST_PROP(ReaderTest, AnyRangeOfAnyCutComesBack, ()) {
  const auto numel = *rc::gen::inRange<int64_t>(0, 200);
  const auto cut_set =
      *rc::gen::container<std::set<int64_t>>(rc::gen::inRange<int64_t>(0, numel + 1));
  const auto num_ranks = *rc::gen::inRange<int64_t>(1, 6);
  const TestTensor tensor = MakeTensor("w", numel, 1, {cut_set.begin(), cut_set.end()});
  io::MemoryStorage storage;
  const auto reader = OpenSaved(storage, {MakeTensor("before", 3, 0, {}), tensor}, num_ranks);
  for (int i = 0; i < 4; ++i) {
    const auto begin = *rc::gen::inRange<int64_t>(0, numel + 1);
    const auto end = *rc::gen::inRange<int64_t>(begin, numel + 1);
    const auto values = ReadFloats(*reader, "w", begin, end);
    RC_ASSERT(values.ok());
    RC_ASSERT(*values ==
              std::vector<float>(tensor.values.begin() + begin, tensor.values.begin() + end));
  }
  RC_ASSERT(reader->Verify().ok());
}

TEST(ReaderTest, PiecesLargerThanAWriteAndAReadComeBack) {
  // 9 MiB in one piece, 3 MiB in another, odd sizes; parts that begin and end inside of blocks.
  const io::TempDir dir;
  const auto storage = io::MakePosixStorage();
  const TestTensor tensor = MakeTensor("w", 3 * (1 << 20) + 7, 0, {9 * (1 << 18) + 3});
  const auto numel = static_cast<int64_t>(tensor.values.size());
  const Committed saved = SaveAll(*storage, dir.path(), 1, {tensor}).value();
  const auto reader = Reader::Open(*storage, saved.dir).value();
  for (const int64_t begin : {int64_t{0}, int64_t{1}, int64_t{1} << 20, (int64_t{1} << 21) + 5}) {
    for (const int64_t end : {begin + 1, begin + (1 << 20) + 1, numel - 1, numel}) {
      const auto values = ReadFloats(*reader, "w", begin, end);
      SHOAL_ASSERT_OK(values.status());
      ASSERT_TRUE(std::equal(values->begin(), values->end(), tensor.values.begin() + begin));
    }
  }
}

TEST(ReaderTest, ADamagedPieceIsNamedWithFileTensorAndRank) {
  io::MemoryStorage storage;
  const auto reader = OpenSaved(storage, {MakeTensor("layer.w", 8, 1, {4})});
  storage.FlipBit(std::string(kDir) + "/rank-00001.safetensors", kHeader + 5);
  SHOAL_EXPECT_OK(ReadFloats(*reader, "layer.w", 0, 4).status());
  for (const int64_t begin : {0, 4, 6}) {  // all, the piece, another part of the piece
    const Status status = ReadFloats(*reader, "layer.w", begin, 8).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption);
    const std::string text = status.ToString();
    EXPECT_NE(text.find("elements [4:8] of tensor \"layer.w\" (param) in "
                        "\"/ckpt/step-00000001/rank-00001.safetensors\", written by rank 1 are "
                        "damaged"),
              std::string::npos)
        << text;
  }
}

TEST(ReaderTest, VerifyFindsEveryFlippedBitOfAFile) {
  io::MemoryStorage storage;
  const auto reader = OpenSaved(storage, {MakeTensor("w", 8, 1, {4})});
  SHOAL_ASSERT_OK(reader->Verify());
  const std::string path = std::string(kDir) + "/rank-00000.safetensors";
  for (int64_t offset = 0; offset < kHeader + 16; offset += offset < kHeader - 10 ? 37 : 1) {
    storage.FlipBit(path, offset);
    EXPECT_EQ(reader->Verify().code(), StatusCode::kCorruption) << offset;
    storage.FlipBit(path, offset);
  }
  SHOAL_EXPECT_OK(reader->Verify());
}

TEST(ReaderTest, ATruncatedOrMissingFileIsNamed) {
  io::MemoryStorage storage;
  SHOAL_ASSERT_OK(SaveAll(storage, "/ckpt", 1, {MakeTensor("w", 8, 1, {4})}).status());
  const std::string path = std::string(kDir) + "/rank-00001.safetensors";
  std::string text = io::ReadText(storage, path, 1 << 20).value();
  SHOAL_ASSERT_OK(storage.RemoveFile(path));
  const auto missing = ReadFloats(*Reader::Open(storage, kDir).value(), "w", 0, 8);
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().ToString().find(path), std::string::npos);

  text.pop_back();
  SHOAL_ASSERT_OK(io::WriteText(storage, path, text));
  const auto truncated = ReadFloats(*Reader::Open(storage, kDir).value(), "w", 0, 8);
  EXPECT_EQ(truncated.status().code(), StatusCode::kCorruption);
  EXPECT_NE(truncated.status().ToString().find("written by rank 1, has 4111 bytes, not 4112"),
            std::string::npos)
      << truncated.status().ToString();
}

TEST(ReaderTest, BadRequestsAreRefused) {
  io::MemoryStorage storage;
  const auto reader = OpenSaved(storage, {MakeTensor("w", 8, 1, {})});
  EXPECT_EQ(ReadFloats(*reader, "v", 0, 1).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadFloats(*reader, "w", 0, 1, "master").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadFloats(*reader, "w", 0, 9).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadFloats(*reader, "w", -1, 3).status().code(), StatusCode::kInvalidArgument);
  std::vector<float> two(2);
  EXPECT_EQ(reader->ReadRange("w", "param", 0, 3, std::as_writable_bytes(std::span(two))).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Reader::Open(storage, "/ckpt").status().code(), StatusCode::kNotFound);
}

TEST(ReaderTest, AliasesReadTheTensorThatTheyName) {
  io::MemoryStorage storage;
  const auto saving = Saving::Begin(storage, "/ckpt", 1, "00000000000000aa").value();
  const std::vector<TestTensor> tensors = {MakeTensor("embed", 4, 1, {})};
  RunInfo run = TestRun(1);
  run.aliases = {{"head", "embed"}};
  const std::vector<std::string> records = {
      WriteRankFile(storage, saving->tmp_dir(), 0, PiecesOfRank(tensors, 0, 1), "{}").value()};
  SHOAL_ASSERT_OK(saving->Commit(run, records, {}).status());
  const auto reader = Reader::Open(storage, kDir).value();
  EXPECT_EQ(ReadFloats(*reader, "head", 1, 3).value(), (std::vector<float>{2, 3}));
}

TEST(ReaderTest, ThreadsMayReadAtOnce) {
  io::MemoryStorage storage;
  const TestTensor tensor = MakeTensor("w", 4000, 1, {1000, 2000, 3000});
  const auto reader = OpenSaved(storage, {tensor});
  std::vector<std::thread> threads;
  std::vector<int> num_wrong(4);
  for (size_t t = 0; t < num_wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int64_t begin = static_cast<int64_t>(t); begin < 3900; begin += 97) {
        const auto values = ReadFloats(*reader, "w", begin, begin + 100);
        if (!values.ok() || (*values)[99] != static_cast<float>(begin + 100)) ++num_wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, std::vector<int>(4));
}

}  // namespace
}  // namespace shoal::ckpt
