#include "shoal/io/faulty_storage.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/io/storage.h"

namespace shoal::io {
namespace {

// What to do with one call.
enum class Action {
  kPass,          // do it
  kFail,          // do nothing, fail
  kHalfThenFail,  // a write: half of it, then fail; others: do nothing, fail
  kDoneThenFail,  // a write: half of it, then fail; others: do it, then fail
};

}  // namespace

struct FaultyStorage::State {
  explicit State(Fault f) : fault(std::move(f)) {}

  Action Next() {
    const int64_t call = num_calls.fetch_add(1);
    if (fault.at_call < 0 || call < fault.at_call) return Action::kPass;
    const bool is_stop = fault.kind == FaultKind::kStop || fault.kind == FaultKind::kStopInside;
    if (call > fault.at_call) return is_stop ? Action::kFail : Action::kPass;
    if (fault.kind == FaultKind::kShortWrite) return Action::kHalfThenFail;
    if (fault.kind == FaultKind::kStopInside) return Action::kDoneThenFail;
    return Action::kFail;
  }

  // For calls that return a Status.
  Status Run(const std::function<Status()>& call) {
    const Action action = Next();
    if (action == Action::kPass) return call();
    if (action == Action::kDoneThenFail) (void)call();
    return fault.error;
  }

  // For calls that return a value.
  template <typename T>
  Result<T> RunFor(const std::function<Result<T>()>& call) {
    const Action action = Next();
    if (action == Action::kPass) return call();
    if (action == Action::kDoneThenFail) (void)call();
    return fault.error;
  }

  const Fault fault;
  std::atomic<int64_t> num_calls{0};
};

class FaultyStorage::FaultyFile : public File {
 public:
  FaultyFile(std::unique_ptr<File> file, std::shared_ptr<State> state)
      : file_(std::move(file)), state_(std::move(state)) {}

  Status WriteAt(int64_t offset, std::span<const std::byte> bytes) override {
    const Action action = state_->Next();
    if (action == Action::kPass) return file_->WriteAt(offset, bytes);
    if (action != Action::kFail) (void)file_->WriteAt(offset, bytes.first(bytes.size() / 2));
    return state_->fault.error;
  }
  Status ReadAt(int64_t offset, std::span<std::byte> bytes) const override {
    return state_->Run([&] { return file_->ReadAt(offset, bytes); });
  }
  Result<int64_t> SizeBytes() const override {
    return state_->RunFor<int64_t>([&] { return file_->SizeBytes(); });
  }
  Status Sync() override {
    return state_->Run([&] { return file_->Sync(); });
  }

 private:
  const std::unique_ptr<File> file_;
  const std::shared_ptr<State> state_;
};

FaultyStorage::FaultyStorage(Storage* storage, Fault fault)
    : storage_(storage), state_(std::make_shared<State>(std::move(fault))) {}

FaultyStorage::~FaultyStorage() = default;

int64_t FaultyStorage::num_calls() const { return state_->num_calls.load(); }

Result<std::unique_ptr<File>> FaultyStorage::OpenToRead(const std::string& path) {
  auto file = state_->RunFor<std::unique_ptr<File>>([&] { return storage_->OpenToRead(path); });
  if (!file.ok()) return file.status();
  return std::unique_ptr<File>(std::make_unique<FaultyFile>(std::move(file).value(), state_));
}

Result<std::unique_ptr<File>> FaultyStorage::Create(const std::string& path) {
  auto file = state_->RunFor<std::unique_ptr<File>>([&] { return storage_->Create(path); });
  if (!file.ok()) return file.status();
  return std::unique_ptr<File>(std::make_unique<FaultyFile>(std::move(file).value(), state_));
}

Result<EntryKind> FaultyStorage::Kind(const std::string& path) {
  return state_->RunFor<EntryKind>([&] { return storage_->Kind(path); });
}

Result<std::vector<std::string>> FaultyStorage::List(const std::string& dir) {
  return state_->RunFor<std::vector<std::string>>([&] { return storage_->List(dir); });
}

Status FaultyStorage::CreateDir(const std::string& dir) {
  return state_->Run([&] { return storage_->CreateDir(dir); });
}

Status FaultyStorage::Rename(const std::string& from, const std::string& to) {
  return state_->Run([&] { return storage_->Rename(from, to); });
}

Status FaultyStorage::RemoveFile(const std::string& path) {
  return state_->Run([&] { return storage_->RemoveFile(path); });
}

Status FaultyStorage::RemoveDir(const std::string& dir) {
  return state_->Run([&] { return storage_->RemoveDir(dir); });
}

Status FaultyStorage::SyncDir(const std::string& dir) {
  return state_->Run([&] { return storage_->SyncDir(dir); });
}

Result<int64_t> FaultyStorage::FreeBytes(const std::string& dir) {
  return state_->RunFor<int64_t>([&] { return storage_->FreeBytes(dir); });
}

Result<std::unique_ptr<Lock>> FaultyStorage::TryLock(const std::string& path,
                                                     const std::string& owner) {
  return state_->RunFor<std::unique_ptr<Lock>>([&] { return storage_->TryLock(path, owner); });
}

}  // namespace shoal::io
