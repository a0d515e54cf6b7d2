// Helpers of the tests of io and ckpt.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>  // mkdtemp

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "shoal/base/status.h"
#include "shoal/io/posix_storage.h"
#include "shoal/io/storage.h"
#include "shoal/io/tree.h"

namespace shoal::io {

#define SHOAL_EXPECT_OK(expr)                                  \
  do {                                                         \
    const ::shoal::Status expected_ok_ = (expr);               \
    EXPECT_TRUE(expected_ok_.ok()) << expected_ok_.ToString(); \
  } while (false)

#define SHOAL_ASSERT_OK(expr)                                  \
  do {                                                         \
    const ::shoal::Status expected_ok_ = (expr);               \
    ASSERT_TRUE(expected_ok_.ok()) << expected_ok_.ToString(); \
  } while (false)

inline std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// A new directory of the real file system, removed with what is in it.
class TempDir {
 public:
  TempDir() : path_(testing::TempDir() + "shoal-XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~TempDir() { SHOAL_EXPECT_OK(RemoveTree(*MakePosixStorage(), path_)); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Creates a file, not synced.
inline Status WriteText(Storage& storage, const std::string& path, std::string_view text) {
  Result<std::unique_ptr<File>> file = storage.Create(path);
  if (!file.ok()) return file.status();
  return (*file)->WriteAt(0, BytesOf(text));
}

}  // namespace shoal::io
