#include "shoal/io/memory_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shoal/base/check.h"
#include "shoal/base/status.h"
#include "shoal/io/storage.h"
#include "shoal/io/tree.h"

namespace shoal::io {

struct MemoryStorage::Node {
  using Entries = std::map<std::string, std::shared_ptr<Node>, std::less<>>;

  bool is_dir = false;
  std::vector<std::byte> content;         // of a file
  std::vector<std::byte> synced_content;  // what a crash leaves at least
  Entries entries;                        // of a directory
  Entries synced_entries;
};

struct MemoryStorage::State {
  using NodePtr = std::shared_ptr<Node>;

  // The node at `path`, or null. @pre mutex is held, as for all that follows.
  NodePtr Find(std::string_view path) const {
    NodePtr node = root;
    while (node != nullptr) {
      path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
      if (path.empty()) return node;
      const size_t length = std::min(path.find('/'), path.size());
      const auto entry = node->entries.find(path.substr(0, length));
      node = entry == node->entries.end() ? nullptr : entry->second;
      path.remove_prefix(length);
    }
    return nullptr;
  }

  Result<NodePtr> FindDir(std::string_view operation, const std::string& path) const {
    NodePtr node = Find(path);
    if (node == nullptr || !node->is_dir) {
      return Status::NotFound(operation, fmt::format("there is no directory \"{}\"", path));
    }
    return node;
  }

  static std::string BaseName(std::string_view path) {
    while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
    const size_t slash = path.rfind('/');
    return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
  }

  // Adds a new node at `path`.
  Status Add(std::string_view operation, const std::string& path, NodePtr node) {
    SHOAL_ASSIGN_OR_RETURN(const NodePtr parent, FindDir(operation, ParentDir(path)));
    if (!parent->entries.emplace(BaseName(path), std::move(node)).second) {
      return Status::InvalidArgument(operation, fmt::format("\"{}\" exists", path));
    }
    return Status();
  }

  Status Remove(const std::string& path, bool is_dir) {
    const NodePtr node = Find(path);
    if (node == nullptr || node->is_dir != is_dir) {
      return Status::NotFound(
          "remove", fmt::format("there is no {} \"{}\"", is_dir ? "directory" : "file", path));
    }
    if (is_dir && !node->entries.empty()) {
      return Status::InvalidArgument("remove", fmt::format("\"{}\" is not empty", path));
    }
    Find(ParentDir(path))->entries.erase(BaseName(path));
    return Status();
  }

  static int64_t ContentBytes(const Node& node) {
    auto bytes = static_cast<int64_t>(node.content.size());
    for (const auto& [name, child] : node.entries) bytes += ContentBytes(*child);
    return bytes;
  }

  int64_t free_bytes() const { return std::max<int64_t>(capacity_bytes - ContentBytes(*root), 0); }

  static void Lose(Node& node, CrashLoss loss, int depth) {
    const bool is_odd = depth % 2 != 0;
    if (loss == CrashLoss::kAllUnsynced) {
      node.content = node.synced_content;
      node.entries = node.synced_entries;
    } else if ((loss == CrashLoss::kNamesAtOddDepth && is_odd) ||
               (loss == CrashLoss::kNamesAtEvenDepth && !is_odd)) {
      node.entries = node.synced_entries;
    } else if (loss == CrashLoss::kTornContent && node.content != node.synced_content) {
      std::fill(node.content.begin() + static_cast<int64_t>(node.content.size() / 2),
                node.content.end(), std::byte{0});
    }
    node.synced_content = node.content;
    node.synced_entries = node.entries;
    for (const auto& [name, child] : node.entries) Lose(*child, loss, depth + 1);
  }

  std::mutex mutex;
  int64_t capacity_bytes = 0;
  int64_t epoch = 0;  // counts crashes: files and locks of another epoch are dead
  NodePtr root = std::make_shared<Node>();
  std::map<std::string, std::string> locks;  // path -> owner
};

class MemoryStorage::MemoryFile : public File {
 public:
  MemoryFile(std::shared_ptr<State> state, std::shared_ptr<Node> node, std::string path)
      : state_(std::move(state)),
        node_(std::move(node)),
        path_(std::move(path)),
        epoch_(state_->epoch) {}

  Status WriteAt(int64_t offset, std::span<const std::byte> bytes) override {
    const std::lock_guard guard(state_->mutex);
    SHOAL_RETURN_IF_ERROR(CheckCall("write", offset));
    const auto end = static_cast<size_t>(offset) + bytes.size();
    if (end > node_->content.size()) {
      const auto more = static_cast<int64_t>(end - node_->content.size());
      if (more > state_->free_bytes()) {
        return Status::IoError(
            "write", fmt::format("cannot write \"{}\": no space left; bytes needed: {}, free: {}",
                                 path_, more, state_->free_bytes()));
      }
      node_->content.resize(end);
    }
    std::copy(bytes.begin(), bytes.end(), node_->content.begin() + offset);
    return Status();
  }

  Status ReadAt(int64_t offset, std::span<std::byte> bytes) const override {
    const std::lock_guard guard(state_->mutex);
    SHOAL_RETURN_IF_ERROR(CheckCall("read", offset));
    const auto begin = static_cast<size_t>(offset);
    if (begin + bytes.size() > node_->content.size()) {
      return Status::Corruption(
          "read", fmt::format("\"{}\" ends at byte {}, bytes up to {} are wanted", path_,
                              node_->content.size(), begin + bytes.size()));
    }
    std::copy_n(node_->content.begin() + offset, bytes.size(), bytes.begin());
    return Status();
  }

  Result<int64_t> SizeBytes() const override {
    const std::lock_guard guard(state_->mutex);
    SHOAL_RETURN_IF_ERROR(CheckCall("size", 0));
    return static_cast<int64_t>(node_->content.size());
  }

  Status Sync() override {
    const std::lock_guard guard(state_->mutex);
    SHOAL_RETURN_IF_ERROR(CheckCall("sync", 0));
    node_->synced_content = node_->content;
    return Status();
  }

 private:
  Status CheckCall(std::string_view operation, int64_t offset) const {
    if (offset < 0) {
      return Status::InvalidArgument(operation, fmt::format("offset is {}, must be >= 0", offset));
    }
    if (epoch_ == state_->epoch) return Status();
    return Status::IoError(operation, fmt::format("\"{}\" was opened before the crash", path_));
  }

  const std::shared_ptr<State> state_;
  const std::shared_ptr<Node> node_;
  const std::string path_;
  const int64_t epoch_;
};

class MemoryStorage::MemoryLock : public Lock {
 public:
  MemoryLock(std::shared_ptr<State> state, std::string path)
      : state_(std::move(state)), path_(std::move(path)), epoch_(state_->epoch) {}
  ~MemoryLock() override {
    const std::lock_guard guard(state_->mutex);
    if (epoch_ == state_->epoch) state_->locks.erase(path_);
  }
  MemoryLock(const MemoryLock&) = delete;
  MemoryLock& operator=(const MemoryLock&) = delete;

 private:
  const std::shared_ptr<State> state_;
  const std::string path_;
  const int64_t epoch_;
};

MemoryStorage::MemoryStorage(int64_t capacity_bytes) : state_(std::make_shared<State>()) {
  state_->capacity_bytes = capacity_bytes;
  state_->root->is_dir = true;
}

MemoryStorage::~MemoryStorage() = default;

Result<std::unique_ptr<File>> MemoryStorage::OpenToRead(const std::string& path) {
  const std::lock_guard guard(state_->mutex);
  const std::shared_ptr<Node> node = state_->Find(path);
  if (node == nullptr || node->is_dir) {
    return Status::NotFound("open", fmt::format("there is no file \"{}\"", path));
  }
  return std::unique_ptr<File>(std::make_unique<MemoryFile>(state_, node, path));
}

Result<std::unique_ptr<File>> MemoryStorage::Create(const std::string& path) {
  const std::lock_guard guard(state_->mutex);
  auto node = std::make_shared<Node>();
  SHOAL_RETURN_IF_ERROR(state_->Add("create", path, node));
  return std::unique_ptr<File>(std::make_unique<MemoryFile>(state_, node, path));
}

Result<EntryKind> MemoryStorage::Kind(const std::string& path) {
  const std::lock_guard guard(state_->mutex);
  const std::shared_ptr<Node> node = state_->Find(path);
  if (node == nullptr) return EntryKind::kMissing;
  return node->is_dir ? EntryKind::kDirectory : EntryKind::kFile;
}

Result<std::vector<std::string>> MemoryStorage::List(const std::string& dir) {
  const std::lock_guard guard(state_->mutex);
  SHOAL_ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, state_->FindDir("list", dir));
  std::vector<std::string> names;
  for (const auto& [name, child] : node->entries) names.push_back(name);
  return names;
}

Status MemoryStorage::CreateDir(const std::string& dir) {
  const std::lock_guard guard(state_->mutex);
  auto node = std::make_shared<Node>();
  node->is_dir = true;
  return state_->Add("create directory", dir, std::move(node));
}

Status MemoryStorage::Rename(const std::string& from, const std::string& to) {
  const std::lock_guard guard(state_->mutex);
  const std::shared_ptr<Node> node = state_->Find(from);
  if (node == nullptr) {
    return Status::NotFound("rename", fmt::format("there is nothing at \"{}\"", from));
  }
  SHOAL_ASSIGN_OR_RETURN(const std::shared_ptr<Node> parent,
                         state_->FindDir("rename", ParentDir(to)));
  const std::shared_ptr<Node> old = state_->Find(to);
  if (old != nullptr && (old->is_dir != node->is_dir || !old->entries.empty())) {
    return Status::InvalidArgument(
        "rename", fmt::format("cannot rename \"{}\" to \"{}\": it exists", from, to));
  }
  state_->Find(ParentDir(from))->entries.erase(State::BaseName(from));
  parent->entries[State::BaseName(to)] = node;
  return Status();
}

Status MemoryStorage::RemoveFile(const std::string& path) {
  const std::lock_guard guard(state_->mutex);
  return state_->Remove(path, false);
}

Status MemoryStorage::RemoveDir(const std::string& dir) {
  const std::lock_guard guard(state_->mutex);
  return state_->Remove(dir, true);
}

Status MemoryStorage::SyncDir(const std::string& dir) {
  const std::lock_guard guard(state_->mutex);
  SHOAL_ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, state_->FindDir("sync", dir));
  node->synced_entries = node->entries;
  return Status();
}

Result<int64_t> MemoryStorage::FreeBytes(const std::string& dir) {
  const std::lock_guard guard(state_->mutex);
  SHOAL_RETURN_IF_ERROR(state_->FindDir("free space", dir).status());
  return state_->free_bytes();
}

Result<std::unique_ptr<Lock>> MemoryStorage::TryLock(const std::string& path,
                                                     const std::string& owner) {
  const std::lock_guard guard(state_->mutex);
  if (state_->Find(path) == nullptr) {
    SHOAL_RETURN_IF_ERROR(state_->Add("lock", path, std::make_shared<Node>()));
  }
  const auto [lock, is_new] = state_->locks.emplace(path, owner);
  if (!is_new) {
    return Status::IoError("lock", fmt::format("\"{}\" is held by {}", path, lock->second));
  }
  return std::unique_ptr<Lock>(std::make_unique<MemoryLock>(state_, path));
}

void MemoryStorage::Crash(CrashLoss loss) {
  const std::lock_guard guard(state_->mutex);
  ++state_->epoch;
  state_->locks.clear();
  State::Lose(*state_->root, loss, 0);
}

void MemoryStorage::FlipBit(const std::string& path, int64_t offset) {
  const std::lock_guard guard(state_->mutex);
  const std::shared_ptr<Node> node = state_->Find(path);
  SHOAL_CHECK(node != nullptr && offset >= 0 &&
              offset < static_cast<int64_t>(node->content.size()));
  node->content[static_cast<size_t>(offset)] ^= std::byte{1};
  node->synced_content = node->content;
}

}  // namespace shoal::io
