// Storage, File, Lock: all I/O of the torch-free rooms goes through these, so that tests can drop
// what was not synced, fail any call and fill the disk.
//
// Goals: whole-or-error reads and writes at offsets; the few directory operations that crash-safe
// writing needs; messages that name path and cause. Non-goals: streams, buffering, permissions,
// links. Rejected: std::filesystem (no fsync, throws or hides errno), one call per open-write-close
// (cannot sync, cannot stream).
//
// Failures: NotFound (path does not exist), Corruption (a file ends before the bytes asked for),
// InvalidArgument (exists already, or negative sizes), IoError (everything else the system says;
// for a full disk or quota the message has the bytes needed and the bytes free).
// Paths are UTF-8 text with '/'; relative ones are relative to the working directory.
//
// Thread-safety: a Storage may be used from several threads. A File's const functions too; its
// other functions by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shoal/base/status.h"

namespace shoal::io {

// An open file. Destroying it closes it; what was not synced may be lost in a crash.
class File {
 public:
  virtual ~File() = default;

  // Writes all bytes at `offset`, growing the file where needed. After a failure any part may have
  // been written.
  virtual Status WriteAt(int64_t offset, std::span<const std::byte> bytes) = 0;

  // Fills `bytes` from `offset`; Corruption if the file ends before.
  virtual Status ReadAt(int64_t offset, std::span<std::byte> bytes) const = 0;

  virtual Result<int64_t> SizeBytes() const = 0;

  // Returns once the content is durable. The file's name is made durable by Storage::SyncDir.
  virtual Status Sync() = 0;
};

// Holds an advisory lock until destroyed, or until the process ends.
class Lock {
 public:
  virtual ~Lock() = default;
};

enum class EntryKind {
  kMissing,    // Nothing there.
  kFile,       // A regular file.
  kDirectory,  // A directory.
  kOther,      // A device, a socket, a dangling link.
};

class Storage {
 public:
  virtual ~Storage() = default;

  // Opens an existing file for reading.
  virtual Result<std::unique_ptr<File>> OpenToRead(const std::string& path) = 0;

  // Creates a file for writing; InvalidArgument if the path exists.
  virtual Result<std::unique_ptr<File>> Create(const std::string& path) = 0;

  // What is at `path`, links followed.
  virtual Result<EntryKind> Kind(const std::string& path) = 0;

  // Names in a directory, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> List(const std::string& dir) = 0;

  // Creates one directory; its parent must exist. InvalidArgument if the path exists.
  virtual Status CreateDir(const std::string& dir) = 0;

  // Atomic. Replaces a file or an empty directory at `to`.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;

  virtual Status RemoveFile(const std::string& path) = 0;

  // Removes an empty directory.
  virtual Status RemoveDir(const std::string& dir) = 0;

  // Makes names created, renamed or removed in `dir` durable.
  virtual Status SyncDir(const std::string& dir) = 0;

  // Bytes that may still be written in `dir` by this user.
  virtual Result<int64_t> FreeBytes(const std::string& dir) = 0;

  // Takes an exclusive lock on the file `path` (created if missing, never removed) without waiting,
  // and writes `owner` into it. IoError, with the holder's text, if another holds it;
  // Unsupported if the file system has no locks.
  virtual Result<std::unique_ptr<Lock>> TryLock(const std::string& path,
                                                const std::string& owner) = 0;
};

}  // namespace shoal::io
