// FaultyStorage: passes calls on to another Storage and makes one of them fail, for tests that ask
// what happens if the n-th I/O call fails.
//
// Every call of Storage and File counts, in the order of the calls, from 0.
//
// Thread-safety: as Storage. The other Storage is borrowed and must outlive this and its files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/io/storage.h"

namespace shoal::io {

enum class FaultKind {
  kError,       // The call does nothing and fails with `error`.
  kShortWrite,  // A write writes its first half, then fails with `error`; other calls: as kError.
  kStop,        // The process dies before the call: it and all later calls fail, doing nothing.
  kStopInside,  // As kStop, but a write has written its first half, and any other call was done.
};

struct Fault {
  FaultKind kind = FaultKind::kError;
  int64_t at_call = -1;  // -1: never
  Status error = Status::IoError("fault", "injected fault");
};

class FaultyStorage : public Storage {
 public:
  FaultyStorage(Storage* storage, Fault fault);
  ~FaultyStorage() override;

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

  // Calls so far, failed ones included.
  int64_t num_calls() const;

 private:
  struct State;
  class FaultyFile;

  Storage* const storage_;
  std::shared_ptr<State> state_;
};

}  // namespace shoal::io
