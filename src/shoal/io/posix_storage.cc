#include "shoal/io/posix_storage.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/io/storage.h"
#include "shoal/io/tree.h"

namespace shoal::io {
namespace {

// The kernel moves at most 0x7ffff000 bytes per call.
constexpr size_t kMaxBytesPerCall = size_t{1} << 30;

std::string ErrnoText(int error) { return std::generic_category().message(error); }

Status FromErrno(std::string_view operation, std::string_view what, const std::string& path,
                 int error) {
  const std::string message = fmt::format("cannot {} \"{}\": {}", what, path, ErrnoText(error));
  if (error == ENOENT || error == ENOTDIR) return Status::NotFound(operation, message);
  if (error == EEXIST || error == ENOTEMPTY) return Status::InvalidArgument(operation, message);
  return Status::IoError(operation, message);
}

// A file descriptor that is closed when it goes.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

Descriptor OpenDescriptor(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EINTR);
  return Descriptor(fd);
}

int FsyncRetrying(int fd) {
  int result = 0;
  do {
    result = ::fsync(fd);
  } while (result != 0 && errno == EINTR);
  return result;
}

Result<int64_t> FreeBytesAt(const std::string& dir) {
  struct statvfs info = {};
  if (::statvfs(dir.c_str(), &info) != 0) {
    return FromErrno("free space", "ask for the free space of", dir, errno);
  }
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

class PosixFile : public File {
 public:
  PosixFile(Descriptor descriptor, std::string path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  Status WriteAt(int64_t offset, std::span<const std::byte> bytes) override;
  Status ReadAt(int64_t offset, std::span<std::byte> bytes) const override;

  Result<int64_t> SizeBytes() const override {
    struct stat info = {};
    if (::fstat(descriptor_.get(), &info) != 0) {
      return FromErrno("size", "ask for the size of", path_, errno);
    }
    return static_cast<int64_t>(info.st_size);
  }

  Status Sync() override {
    if (FsyncRetrying(descriptor_.get()) == 0) return Status();
    return WriteError("sync", errno, 0);
  }

 private:
  Status WriteError(std::string_view operation, int error, int64_t needed_bytes) const;

  const Descriptor descriptor_;
  const std::string path_;
};

Status PosixFile::WriteError(std::string_view operation, int error, int64_t needed_bytes) const {
  Status status = FromErrno(operation, operation, path_, error);
  const bool is_full =
      error == ENOSPC || error == EDQUOT;  // NOLINT(misc-include-cleaner): <cerrno>
  if (!is_full) return status;
  const Result<int64_t> free = FreeBytesAt(ParentDir(path_));
  const std::string free_text = free.ok() ? std::to_string(*free) : "unknown";
  if (needed_bytes == 0) return status.WithContext(fmt::format("bytes free: {}", free_text));
  return status.WithContext(fmt::format("bytes needed: {}, free: {}", needed_bytes, free_text));
}

Status PosixFile::WriteAt(int64_t offset, std::span<const std::byte> bytes) {
  if (offset < 0) {
    return Status::InvalidArgument("write", fmt::format("offset is {}, must be >= 0", offset));
  }
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_.get(), bytes.data(), std::min(bytes.size(), kMaxBytesPerCall), offset);
    if (written < 0) {
      if (errno == EINTR) continue;
      return WriteError("write", errno, static_cast<int64_t>(bytes.size()));
    }
    offset += written;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return Status();
}

Status PosixFile::ReadAt(int64_t offset, std::span<std::byte> bytes) const {
  if (offset < 0) {
    return Status::InvalidArgument("read", fmt::format("offset is {}, must be >= 0", offset));
  }
  while (!bytes.empty()) {
    const ssize_t read =
        ::pread(descriptor_.get(), bytes.data(), std::min(bytes.size(), kMaxBytesPerCall), offset);
    if (read < 0) {
      if (errno == EINTR) continue;
      return FromErrno("read", "read", path_, errno);
    }
    if (read == 0) {
      return Status::Corruption("read", fmt::format("\"{}\" ends at byte {}, {} more are wanted",
                                                    path_, offset, bytes.size()));
    }
    offset += read;
    bytes = bytes.subspan(static_cast<size_t>(read));
  }
  return Status();
}

class PosixLock : public Lock {
 public:
  explicit PosixLock(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  // Explicitly: children forked meanwhile hold copies of the descriptor.
  ~PosixLock() override { ::flock(descriptor_.get(), LOCK_UN); }
  PosixLock(const PosixLock&) = delete;
  PosixLock& operator=(const PosixLock&) = delete;

 private:
  const Descriptor descriptor_;
};

std::string OwnerIn(int fd) {
  std::array<char, 256> text = {};
  const ssize_t read = ::pread(fd, text.data(), text.size(), 0);
  if (read <= 0) return "unknown";
  return std::string(text.data(), static_cast<size_t>(read));
}

class PosixStorage : public Storage {
 public:
  Result<std::unique_ptr<File>> OpenToRead(const std::string& path) override {
    return Open(path, O_RDONLY, "open");
  }
  Result<std::unique_ptr<File>> Create(const std::string& path) override {
    return Open(path, O_WRONLY | O_CREAT | O_EXCL, "create");
  }
  Result<EntryKind> Kind(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& dir) override;
  Status CreateDir(const std::string& dir) override {
    if (::mkdir(dir.c_str(), 0777) == 0) return Status();
    return FromErrno("create directory", "create directory", dir, errno);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    if (std::rename(from.c_str(), to.c_str()) == 0) return Status();
    return FromErrno("rename", fmt::format("rename \"{}\" to", from), to, errno);
  }
  Status RemoveFile(const std::string& path) override {
    if (::unlink(path.c_str()) == 0) return Status();
    return FromErrno("remove", "remove", path, errno);
  }
  Status RemoveDir(const std::string& dir) override {
    if (::rmdir(dir.c_str()) == 0) return Status();
    return FromErrno("remove", "remove directory", dir, errno);
  }
  Status SyncDir(const std::string& dir) override;
  Result<int64_t> FreeBytes(const std::string& dir) override { return FreeBytesAt(dir); }
  Result<std::unique_ptr<Lock>> TryLock(const std::string& path, const std::string& owner) override;

 private:
  static Result<std::unique_ptr<File>> Open(const std::string& path, int flags,
                                            std::string_view operation);
};

Result<std::unique_ptr<File>> PosixStorage::Open(const std::string& path, int flags,
                                                 std::string_view operation) {
  Descriptor descriptor = OpenDescriptor(path, flags);
  if (!descriptor.is_open()) return FromErrno(operation, operation, path, errno);
  return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(descriptor), path));
}

Result<EntryKind> PosixStorage::Kind(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    const int error = errno;
    if (error != ENOENT && error != ENOTDIR) return FromErrno("look", "look at", path, error);
    return ::lstat(path.c_str(), &info) == 0 ? EntryKind::kOther : EntryKind::kMissing;
  }
  if (S_ISDIR(info.st_mode)) return EntryKind::kDirectory;
  return S_ISREG(info.st_mode) ? EntryKind::kFile : EntryKind::kOther;
}

Result<std::vector<std::string>> PosixStorage::List(const std::string& dir) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(dir.c_str()), &::closedir);
  if (stream == nullptr) return FromErrno("list", "list", dir, errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name(static_cast<const char*>(entry->d_name));
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return FromErrno("list", "list", dir, errno);
  std::sort(names.begin(), names.end());
  return names;
}

Status PosixStorage::SyncDir(const std::string& dir) {
  const Descriptor descriptor = OpenDescriptor(dir, O_RDONLY | O_DIRECTORY);
  if (!descriptor.is_open() || FsyncRetrying(descriptor.get()) != 0) {
    return FromErrno("sync", "sync directory", dir, errno);
  }
  return Status();
}

Result<std::unique_ptr<Lock>> PosixStorage::TryLock(const std::string& path,
                                                    const std::string& owner) {
  Descriptor descriptor = OpenDescriptor(path, O_RDWR | O_CREAT);
  if (!descriptor.is_open()) return FromErrno("lock", "open", path, errno);
  if (::flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EWOULDBLOCK) {
      return Status::IoError("lock",
                             fmt::format("\"{}\" is held by {}", path, OwnerIn(descriptor.get())));
    }
    if (error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP || error == EINVAL) {
      return Status::Unsupported("lock", fmt::format("the file system of \"{}\" has no locks: {}",
                                                     path, ErrnoText(error)));
    }
    return FromErrno("lock", "lock", path, error);
  }
  if (::ftruncate(descriptor.get(), 0) != 0 ||
      ::pwrite(descriptor.get(), owner.data(), owner.size(), 0) !=
          static_cast<ssize_t>(owner.size())) {
    return FromErrno("lock", "write the owner into", path, errno);
  }
  return std::unique_ptr<Lock>(std::make_unique<PosixLock>(std::move(descriptor)));
}

}  // namespace

std::unique_ptr<Storage> MakePosixStorage() { return std::make_unique<PosixStorage>(); }

}  // namespace shoal::io
