// MemoryStorage: a file system in memory that remembers what was synced, so that a test can crash
// it at any point and look at what a machine would find after the restart.
//
// The root directory "/" exists. Files and directories behave as POSIX says: an open file lives on
// after it is removed or renamed.
//
// Thread-safety: as Storage; Crash() only while no other call runs.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/io/storage.h"

namespace shoal::io {

// What a crash does to changes that were not synced. Real file systems do any mix of these.
enum class CrashLoss {
  kAllUnsynced,  // Unsynced content and unsynced names of directories are gone.
  kNothing,      // Everything had reached the disk by chance.
  // As kNothing, but directories an odd (even) number of levels below "/" lose unsynced names:
  // what happened in one directory had reached the disk before what happened in another.
  kNamesAtOddDepth,
  kNamesAtEvenDepth,
  kTornContent,  // Names had reached the disk; of unsynced content only the first half, then zeros.
};

class MemoryStorage : public Storage {
 public:
  // At most `capacity_bytes` of content; more fails as a full disk does.
  explicit MemoryStorage(int64_t capacity_bytes = int64_t{1} << 40);
  ~MemoryStorage() override;

  Result<std::unique_ptr<File>> OpenToRead(const std::string& path) override;
  Result<std::unique_ptr<File>> Create(const std::string& path) override;
  Result<EntryKind> Kind(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& dir) override;
  Status CreateDir(const std::string& dir) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status RemoveFile(const std::string& path) override;
  Status RemoveDir(const std::string& dir) override;
  Status SyncDir(const std::string& dir) override;
  Result<int64_t> FreeBytes(const std::string& dir) override;
  Result<std::unique_ptr<Lock>> TryLock(const std::string& path, const std::string& owner) override;

  // The machine stops and starts again: loses changes as `loss` says and releases all locks.
  // Files opened before fail from now on.
  void Crash(CrashLoss loss);

  // Flips the lowest bit of one byte of a file, synced or not. @pre the file has that byte.
  void FlipBit(const std::string& path, int64_t offset);

 private:
  struct Node;   // a file or a directory
  struct State;  // the tree, shared with open files
  class MemoryFile;
  class MemoryLock;

  std::shared_ptr<State> state_;
};

}  // namespace shoal::io
