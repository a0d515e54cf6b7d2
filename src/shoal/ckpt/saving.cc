#include "shoal/ckpt/saving.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/ckpt/json_internal.h"
#include "shoal/ckpt/latest.h"
#include "shoal/ckpt/manifest.h"
#include "shoal/ckpt/names_internal.h"
#include "shoal/io/storage.h"
#include "shoal/io/tree.h"

namespace shoal::ckpt {
namespace {

// Who holds the lock, for the one who is refused.
std::string OwnerText(const std::string& save_id) {
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {'?'};
  return fmt::format("process {} on host {}, save {}", getpid(), host.data(), save_id);
}

void Warn(const Status& status, std::string_view what, std::vector<std::string>& warnings) {
  if (!status.ok()) warnings.push_back(fmt::format("{}: {}", what, status.ToString()));
}

// Ok if rank 0 sees the file that a rank says it wrote.
Status CheckVisible(io::Storage& storage, const std::string& dir, const FileRecord& record) {
  const std::string path = io::JoinPath(dir, record.name);
  const auto file = storage.OpenToRead(path);
  if (!file.ok()) {
    return file.status().WithContext(
        fmt::format("rank {} wrote it, rank 0 does not see it: the directory must be on a file "
                    "system that all ranks share",
                    record.rank));
  }
  SHOAL_ASSIGN_OR_RETURN(const int64_t size_bytes, (*file)->SizeBytes());
  if (size_bytes == record.size_bytes) return Status();
  return Status::Corruption("save", fmt::format("\"{}\" has {} bytes, rank {} wrote {}", path,
                                                size_bytes, record.rank, record.size_bytes));
}

// Steps other than `step`, the one to keep longest first: nearest before it, then nearest after.
std::vector<int64_t> OtherSteps(const std::vector<std::string>& names, int64_t step) {
  std::vector<int64_t> others;
  for (const std::string& name : names) {
    const std::optional<int64_t> other = ParseStepDirName(name);
    if (other.has_value() && *other != step) others.push_back(*other);
  }
  std::sort(others.begin(), others.end(), [step](int64_t a, int64_t b) {
    return std::tuple(a > step, std::abs(a - step)) < std::tuple(b > step, std::abs(b - step));
  });
  return others;
}

}  // namespace

Saving::Saving(io::Storage& storage, std::string root, int64_t step, std::string save_id)
    : storage_(storage),
      root_(std::move(root)),
      step_(step),
      save_id_(std::move(save_id)),
      tmp_dir_(io::JoinPath(root_, TempDirName(step_, save_id_))),
      final_dir_(io::JoinPath(root_, StepDirName(step_))) {}

Saving::~Saving() { (void)Abort(); }

Result<std::unique_ptr<Saving>> Saving::Begin(io::Storage& storage, const std::string& root,
                                              int64_t step, const std::string& save_id) {
  if (step < 0) {
    return Status::InvalidArgument("save", fmt::format("step is {}, must be >= 0", step));
  }
  if (!IsSaveId(save_id)) {
    return Status::InvalidArgument(
        "save", fmt::format("save_id \"{}\" must be 16 hexadecimal digits", save_id));
  }
  std::unique_ptr<Saving> saving(new Saving(storage, root, step, save_id));
  saving->is_finished_ = true;  // nothing to abort yet
  const std::string context = fmt::format("saving step {} into \"{}\"", step, root);
  Status status = io::CreateDirs(storage, root);
  if (status.ok()) status = saving->TakeLock();
  if (status.ok()) status = saving->CleanUp();
  if (status.ok()) {
    saving->is_finished_ = false;
    status = storage.CreateDir(saving->tmp_dir_);
  }
  if (!status.ok()) return std::move(status).WithContext(context);
  return saving;
}

Status Saving::TakeLock() {
  auto lock = storage_.TryLock(io::JoinPath(root_, kLockName), OwnerText(save_id_));
  if (lock.ok()) {
    lock_ = std::move(lock).value();
    return Status();
  }
  if (lock.status().code() == StatusCode::kUnsupported) {
    Warn(lock.status(), "another job that saves here at the same time would not be noticed",
         warnings_);
    return Status();
  }
  return lock.status();
}

Status Saving::CleanUp() {
  SHOAL_ASSIGN_OR_RETURN(const std::vector<std::string> names, storage_.List(root_));
  for (const std::string& name : names) {
    const std::string path = io::JoinPath(root_, name);
    const DirName parsed = ParseDirName(name);
    if (parsed.kind == DirKind::kTemp || IsLatestTemp(name)) {
      Warn(io::RemoveTree(storage_, path), "a leftover of an earlier crash stays", warnings_);
    } else if (parsed.kind == DirKind::kOld) {
      const std::string final_path = io::JoinPath(root_, StepDirName(parsed.step));
      SHOAL_ASSIGN_OR_RETURN(const io::EntryKind kind, storage_.Kind(final_path));
      if (kind == io::EntryKind::kMissing) {
        SHOAL_RETURN_IF_ERROR(storage_.Rename(path, final_path));
        SHOAL_RETURN_IF_ERROR(storage_.SyncDir(root_));
      } else {
        Warn(io::RemoveTree(storage_, path), "a replaced checkpoint stays", warnings_);
      }
    }
  }
  return Status();
}

Result<Manifest> Saving::CheckedManifest(const RunInfo& run, std::span<const std::string> records) {
  if (!Json::accept(run.state_json)) {
    return Status::InvalidArgument("save", "the run's state is not JSON");
  }
  std::vector<RankRecords> parsed;
  for (const std::string& text : records) {
    SHOAL_ASSIGN_OR_RETURN(RankRecords of_rank, RankRecordsFromText(text));
    parsed.push_back(std::move(of_rank));
  }
  SHOAL_ASSIGN_OR_RETURN(Manifest manifest, MergeRecords(step_, save_id_, run, std::move(parsed)));
  for (const FileRecord& file : manifest.files) {
    SHOAL_RETURN_IF_ERROR(CheckVisible(storage_, tmp_dir_, file));
  }
  return manifest;
}

Status Saving::Publish(const Manifest& manifest) {
  SHOAL_ASSIGN_OR_RETURN(const std::string text, ManifestToText(manifest));
  SHOAL_RETURN_IF_ERROR(io::WriteTextDurably(storage_, io::JoinPath(tmp_dir_, kIndexName), text));
  SHOAL_RETURN_IF_ERROR(storage_.SyncDir(tmp_dir_));
  SHOAL_ASSIGN_OR_RETURN(const io::EntryKind kind, storage_.Kind(final_dir_));
  const std::string old_dir = io::JoinPath(root_, OldDirName(step_, save_id_));
  const bool replaces = kind != io::EntryKind::kMissing;
  if (replaces) SHOAL_RETURN_IF_ERROR(storage_.Rename(final_dir_, old_dir));
  Status renamed = storage_.Rename(tmp_dir_, final_dir_);
  if (!renamed.ok()) {
    // Put the previous one back; if this fails too, readers find it under its other name.
    if (replaces) (void)storage_.Rename(old_dir, final_dir_);
    return renamed;
  }
  is_published_ = true;
  // Before `latest` can become durable, the directory that it names must be.
  return storage_.SyncDir(root_);
}

Status Saving::PointLatest() {
  const std::string temp = io::JoinPath(root_, LatestTempName(save_id_));
  Status status = io::WriteTextDurably(storage_, temp, StepDirName(step_) + "\n");
  if (status.ok()) status = storage_.Rename(temp, io::JoinPath(root_, kLatestName));
  if (status.ok()) return storage_.SyncDir(root_);
  (void)storage_.RemoveFile(temp);  // else the next save removes it
  return status;
}

void Saving::Retain(std::optional<int64_t> keep, std::vector<std::string>& warnings) {
  Warn(io::RemoveTree(storage_, io::JoinPath(root_, OldDirName(step_, save_id_))),
       "a replaced checkpoint stays", warnings);
  if (!keep.has_value()) return;
  const auto names = storage_.List(root_);
  if (!names.ok()) {
    Warn(names.status(), "old checkpoints stay", warnings);
    return;
  }
  const std::vector<int64_t> others = OtherSteps(*names, step_);
  for (size_t i = static_cast<size_t>(*keep - 1); i < others.size(); ++i) {
    // Under a name that nobody reads, durably, before its files go.
    const std::string trash = io::JoinPath(root_, TempDirName(others[i], save_id_));
    Status status = storage_.Rename(io::JoinPath(root_, StepDirName(others[i])), trash);
    if (status.ok()) status = storage_.SyncDir(root_);
    if (status.ok()) status = io::RemoveTree(storage_, trash);
    Warn(status, fmt::format("old checkpoint {} stays", StepDirName(others[i])), warnings);
  }
}

Result<Committed> Saving::Commit(const RunInfo& run, std::span<const std::string> records,
                                 std::optional<int64_t> keep) {
  const std::string context = fmt::format("saving step {} into \"{}\"", step_, root_);
  if (is_finished_) {
    return Status::InvalidArgument("save", "it was committed or aborted").WithContext(context);
  }
  Status status;
  if (keep.has_value() && *keep < 1) {
    status = Status::InvalidArgument("save", fmt::format("keep is {}, must be >= 1", *keep));
  }
  if (status.ok()) {
    const Result<Manifest> manifest = CheckedManifest(run, records);
    status = manifest.ok() ? Publish(*manifest) : manifest.status();
  }
  if (status.ok()) status = PointLatest();
  if (!status.ok()) {
    if (is_published_) {
      status = status.WithContext(
          fmt::format("checkpoint \"{}\" is complete, but may not survive a crash of the machine, "
                      "and \"{}\" may not name it",
                      final_dir_, kLatestName));
    }
    (void)Abort();  // what cannot be removed now, the next save removes
    return status.WithContext(context);
  }
  Committed result{.dir = final_dir_, .warnings = warnings_};
  Retain(keep, result.warnings);
  is_finished_ = true;
  lock_.reset();
  return result;
}

Status Saving::Abort() {
  if (is_finished_) return Status();
  is_finished_ = true;
  const Status status = is_published_ ? Status() : io::RemoveTree(storage_, tmp_dir_);
  lock_.reset();
  return status;
}

}  // namespace shoal::ckpt
