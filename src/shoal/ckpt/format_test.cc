// The worked example of docs/formats/checkpoint.md, byte by byte. A change here is a new format.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/ckpt/checkpoint_for_test_internal.h"
#include "shoal/ckpt/manifest.h"
#include "shoal/ckpt/reader.h"
#include "shoal/ckpt/saving.h"
#include "shoal/io/memory_storage.h"
#include "shoal/io/storage_for_test_internal.h"
#include "shoal/io/tree.h"

namespace shoal::ckpt {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;

const char* const kIndex =
    R"({"format":"shoal-checkpoint","format_version":1,"step":7,"save_id":"00000000000000aa",)"
    R"("shoal_version":"0.1.0","torch_version":"2.13.0","mesh":"dp=2","zero_stage":3,)"
    R"("world_size":2,"aliases":{},"state":"{}",)"
    "\n"
    R"("files":[)"
    "\n"
    R"({"name":"rank-00000.safetensors","rank":0,"bytes":4104,"header_bytes":4096,)"
    R"("header_crc32c":"260f1bba","state":"{}"},)"
    "\n"
    R"({"name":"rank-00001.safetensors","rank":1,"bytes":4100,"header_bytes":4096,)"
    R"("header_crc32c":"efe7e53d","state":"{}"}],)"
    "\n"
    R"("tensors":[)"
    "\n"
    R"({"name":"w","role":"param","dtype":"float32","shape":[3],"pieces":[)"
    R"({"file":0,"offset":4096,"bytes":8,"flat":[0,2],"crc32c":"28c0c9b1"},)"
    R"({"file":1,"offset":4096,"bytes":4,"flat":[2,3],"crc32c":"f60b907f"}]}])"
    R"(,"crc32c":"fd427efc"})"
    "\n";

std::string Header(const std::string& json) {
  std::string text("\xf8\x0f\0\0\0\0\0\0", 8);
  text += json;
  text.resize(4096, ' ');
  return text;
}

class FormatTest : public testing::Test {
 protected:
  void SetUp() override {
    SHOAL_ASSERT_OK(SaveAll(storage_, "/ckpt", 7, {MakeTensor("w", 3, 1, {2})}).status());
  }
  std::string Read(const std::string& path) {
    return io::ReadText(storage_, path, kMaxBytes).value();
  }

  io::MemoryStorage storage_;
};

TEST_F(FormatTest, RankFilesAreTheBytesOfTheExample) {
  const std::string start =
      R"({"__metadata__":{"format":"shoal-checkpoint","format_version":"1","rank":)";
  EXPECT_EQ(
      Read("/ckpt/step-00000007/rank-00000.safetensors"),
      Header(start + R"("0"},"param/w[0:2]":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})") +
          std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  EXPECT_EQ(
      Read("/ckpt/step-00000007/rank-00001.safetensors"),
      Header(start + R"("1"},"param/w[2:3]":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})") +
          std::string("\0\0\x40\x40", 4));
}

TEST_F(FormatTest, TheIndexIsTheTextOfTheExample) {
  EXPECT_EQ(Read("/ckpt/step-00000007/index.json"), kIndex);
}

TEST_F(FormatTest, ThePageShowsTheSameIndex) {
  std::ifstream file(SHOAL_FORMAT_PAGE);
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_NE(page.str().find(std::string("```json\n") + kIndex + "```"), std::string::npos);
}

TEST_F(FormatTest, LatestAndTheDirectoryHaveTheirNames) {
  EXPECT_EQ(Read("/ckpt/latest"), "step-00000007\n");
  EXPECT_EQ(storage_.List("/ckpt").value(),
            (std::vector<std::string>{"latest", "lock", "step-00000007"}));
}

}  // namespace
}  // namespace shoal::ckpt
