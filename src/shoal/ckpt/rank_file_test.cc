#include "shoal/ckpt/rank_file.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/dtype.h"
#include "shoal/base/status.h"
#include "shoal/ckpt/manifest.h"
#include "shoal/ckpt/safetensors.h"
#include "shoal/io/faulty_storage.h"
#include "shoal/io/memory_storage.h"
#include "shoal/io/storage.h"
#include "shoal/io/storage_for_test_internal.h"

namespace shoal::ckpt {
namespace {

constexpr std::array<char, 64> kData = {};

PieceToWrite MakePiece(std::string name, DType dtype, std::vector<int64_t> shape, int64_t begin,
                       int64_t end) {
  return {.tensor = std::move(name),
          .role = "param",
          .dtype = dtype,
          .global_shape = std::move(shape),
          .dim_order = {},
          .flat_begin = begin,
          .flat_end = end,
          .data = kData.data()};
}

Result<RankRecords> Write(io::Storage& storage, const std::vector<PieceToWrite>& pieces) {
  const auto text = WriteRankFile(storage, "/", 3, pieces, "{}");
  if (!text.ok()) return text.status();
  return RankRecordsFromText(*text);
}

std::vector<SafetensorsEntry> EntriesOf(io::Storage& storage) {
  const auto file = storage.OpenToRead("/rank-00003.safetensors").value();
  return ReadSafetensorsHeader(*file, "f").value().entries;
}

TEST(RankFileTest, PiecesArePackedLargestAlignmentFirst) {
  io::MemoryStorage storage;
  SHOAL_ASSERT_OK(Write(storage, {MakePiece("byte", DType::kBool, {3}, 0, 3),
                                  MakePiece("half", DType::kBFloat16, {5}, 0, 5),
                                  MakePiece("complex", DType::kComplex64, {1}, 0, 1),
                                  MakePiece("double", DType::kFloat64, {2}, 0, 2),
                                  MakePiece("int", DType::kInt32, {2}, 0, 2)})
                      .status());
  EXPECT_EQ(EntriesOf(storage),
            (std::vector<SafetensorsEntry>{{"param/double[0:2]", "F64", {2}, 0, 16},
                                           {"param/complex[0:1]", "F32", {1, 2}, 16, 24},
                                           {"param/int[0:2]", "I32", {2}, 24, 32},
                                           {"param/half[0:5]", "BF16", {5}, 32, 42},
                                           {"param/byte[0:3]", "BOOL", {3}, 42, 45}}));
}

TEST(RankFileTest, WholeTensorsKeepTheirShapePartsAreFlat) {
  io::MemoryStorage storage;
  PieceToWrite permuted = MakePiece("permuted", DType::kInt8, {2, 3}, 0, 6);
  permuted.dim_order = {1, 0};
  SHOAL_ASSERT_OK(Write(storage, {MakePiece("whole", DType::kInt8, {2, 3}, 0, 6),
                                  MakePiece("part", DType::kInt8, {2, 3}, 1, 5), permuted,
                                  MakePiece("scalar", DType::kInt8, {}, 0, 1)})
                      .status());
  EXPECT_EQ(EntriesOf(storage),
            (std::vector<SafetensorsEntry>{{"param/whole[0:6]", "I8", {2, 3}, 0, 6},
                                           {"param/part[1:5]", "I8", {4}, 6, 10},
                                           {"param/permuted[0:6]", "I8", {6}, 10, 16},
                                           {"param/scalar[0:1]", "I8", {}, 16, 17}}));
}

TEST(RankFileTest, EveryDTypeIsAKnownOneOfTheFormat) {
  for (int value = 0; value <= static_cast<int>(DType::kComplex128); ++value) {
    io::MemoryStorage storage;
    const auto dtype = static_cast<DType>(value);
    SHOAL_ASSERT_OK(Write(storage, {MakePiece("w", dtype, {2}, 0, 2)}).status());
    const auto entries = EntriesOf(storage);
    EXPECT_EQ(entries[0].end_bytes, 2 * DTypeBytes(dtype)) << DTypeName(dtype);
  }
}

TEST(RankFileTest, EmptyPiecesOnlyNameTheirTensor) {
  io::MemoryStorage storage;
  const auto records = Write(storage, {MakePiece("w", DType::kFloat32, {4}, 4, 4),
                                       MakePiece("none", DType::kFloat32, {0, 2}, 0, 0)});
  SHOAL_ASSERT_OK(records.status());
  ASSERT_EQ(records->tensors.size(), 2U);
  EXPECT_TRUE(records->tensors[0].pieces.empty());
  EXPECT_EQ(records->tensors[1].shape, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(records->file.size_bytes, kHeaderAlignment);
  EXPECT_TRUE(EntriesOf(storage).empty());
}

TEST(RankFileTest, TheFileIsDurable) {
  io::MemoryStorage storage;
  const auto records = Write(storage, {MakePiece("w", DType::kFloat32, {4}, 0, 4)});
  SHOAL_ASSERT_OK(records.status());
  storage.Crash(io::CrashLoss::kAllUnsynced);
  const auto file = storage.OpenToRead("/rank-00003.safetensors").value();
  EXPECT_EQ(file->SizeBytes().value(), records->file.size_bytes);
}

TEST(RankFileTest, BadPiecesAreRefusedByNameBeforeAnythingIsWritten) {
  const auto refuse = [](const PieceToWrite& piece, const std::string& reason) {
    io::MemoryStorage storage;
    const Status status = Write(storage, {piece}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_NE(status.ToString().find(reason), std::string::npos) << status.ToString();
    EXPECT_TRUE(storage.List("/").value().empty());
  };
  const PieceToWrite good = MakePiece("w", DType::kFloat32, {4}, 0, 4);
  refuse(MakePiece("w", DType::kFloat32, {4}, 0, 5), "\"w\" (param): range [0:5]");
  refuse(MakePiece("w", DType::kFloat32, {4}, -1, 2), "range [-1:2]");
  refuse(MakePiece("w", DType::kFloat32, {4}, 3, 2), "range [3:2]");
  refuse(MakePiece("w", DType::kFloat32, {-4}, 0, 0), "shape [-4]");
  refuse(MakePiece("w", DType::kFloat32, {std::numeric_limits<int64_t>::max()}, 0, 1), "too large");
  refuse(MakePiece("", DType::kFloat32, {4}, 0, 4), "no name");
  PieceToWrite piece = good;
  piece.role = "Param/";
  refuse(piece, "role \"Param/\"");
  piece = good;
  piece.data = nullptr;
  refuse(piece, "data is null");
  piece = good;
  piece.dim_order = {1};
  refuse(piece, "dim_order [1]");
}

TEST(RankFileTest, StateMustBeJson) {
  io::MemoryStorage storage;
  EXPECT_EQ(WriteRankFile(storage, "/", 0, {}, "{'a': 1}").status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteRankFile(storage, "/", -1, {}, "{}").status().code(),
            StatusCode::kInvalidArgument);
}

TEST(RankFileTest, AFullDiskIsNoticedBeforeItIsFilled) {
  io::MemoryStorage storage(4100);
  const Status status = Write(storage, {MakePiece("w", DType::kFloat32, {4}, 0, 4)}).status();
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.ToString().find("bytes needed: 4112, free: 4100"), std::string::npos)
      << status.ToString();
  EXPECT_NE(status.ToString().find("rank 3 writing"), std::string::npos) << status.ToString();
  EXPECT_EQ(storage.FreeBytes("/").value(), 4100);
}

TEST(RankFileTest, AFailureAtAnyCallLeavesNoFile) {
  const std::vector<PieceToWrite> pieces = {MakePiece("w", DType::kFloat32, {4}, 0, 4)};
  int64_t num_calls = 0;
  for (int64_t call = 0; call == 0 || call < num_calls; ++call) {
    io::MemoryStorage memory;
    io::FaultyStorage storage(&memory, {.kind = io::FaultKind::kShortWrite, .at_call = call});
    const Status status = Write(storage, pieces).status();
    EXPECT_EQ(status.message(), "injected fault") << call;
    EXPECT_TRUE(memory.List("/").value().empty()) << call;
    if (call == 0) {
      io::FaultyStorage healthy(&memory, {});
      SHOAL_ASSERT_OK(Write(healthy, pieces).status());
      num_calls = healthy.num_calls();
      EXPECT_GE(num_calls, 5);
    }
  }
}

}  // namespace
}  // namespace shoal::ckpt
