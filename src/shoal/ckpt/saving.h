// Saving: rank 0's part of a save, from the lock to `latest` (docs/formats/checkpoint.md, Writing).
//
//   rank 0: Begin(root, step, id)  -> tmp_dir, told to all ranks
//   all:    WriteRankFile(tmp_dir) -> records, sent to rank 0
//   rank 0: Commit(run, records, keep), or Abort() if any rank failed
//
// A failure or a crash at any point leaves the previous checkpoints and `latest` as they were,
// unless the message of Commit says that the new checkpoint is complete.
//
// Thread-safety: one thread at a time. The Storage is borrowed and must outlive the object.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shoal/base/status.h"
#include "shoal/ckpt/manifest.h"
#include "shoal/io/storage.h"

namespace shoal::ckpt {

// What a successful Commit has to say.
struct Committed {
  std::string dir;                    // the checkpoint
  std::vector<std::string> warnings;  // what could not be deleted; the next save tries again
};

class Saving {
 public:
  // Creates `root` if needed, takes its lock, deletes what earlier crashes left and makes the
  // temporary directory. InvalidArgument for a negative step or a bad id; IoError when another job
  // is saving there (naming it).
  static Result<std::unique_ptr<Saving>> Begin(io::Storage& storage, const std::string& root,
                                               int64_t step, const std::string& save_id);

  // Aborts a save that was neither committed nor aborted.
  ~Saving();

  Saving(const Saving&) = delete;
  Saving& operator=(const Saving&) = delete;

  const std::string& tmp_dir() const { return tmp_dir_; }

  // What Begin could not do but can do without (no locks on this file system, leftovers).
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Checks the ranks' records (in rank order) and files, makes the checkpoint visible, points
  // `latest` at it and deletes old ones: with `keep` = n >= 1 the new one and n - 1 others
  // stay, the nearest steps before it first, then the nearest after it. On failure the temporary
  // directory is removed.
  Result<Committed> Commit(const RunInfo& run, std::span<const std::string> records,
                           std::optional<int64_t> keep);

  // Removes the temporary directory. Nothing after Commit or Abort.
  Status Abort();

 private:
  Saving(io::Storage& storage, std::string root, int64_t step, std::string save_id);

  Status TakeLock();
  Status CleanUp();
  Result<Manifest> CheckedManifest(const RunInfo& run, std::span<const std::string> records);
  Status Publish(const Manifest& manifest);
  Status PointLatest();
  void Retain(std::optional<int64_t> keep, std::vector<std::string>& warnings);

  io::Storage& storage_;
  const std::string root_;
  const int64_t step_;
  const std::string save_id_;
  const std::string tmp_dir_;
  const std::string final_dir_;
  std::unique_ptr<io::Lock> lock_;
  std::vector<std::string> warnings_;
  bool is_published_ = false;  // the rename was done
  bool is_finished_ = false;   // committed or aborted
};

}  // namespace shoal::ckpt
