// A FileSystem in memory that loses its power: what was not synced is forgotten, as POSIX allows
// it. A file's bytes are safe after its Sync, a name (made, renamed or removed) after SyncDirectory
// of the folder that holds it, and a folder that nobody can reach any more is gone with what it
// holds.
//
// Each Create, Append, Sync, Close, MakeDirectories, Rename, SyncDirectory, RemoveFile and
// RemoveTree is one operation, counted as in faulty_file_system.h. From the n-th on (LosePowerAt)
// every call fails; PowerOn then says what is left. Thread-safe. Its folders begin at "/", which is
// there.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/mutex.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/fs/file_system.h"

namespace muster::testing {

class CrashFileSystem final : public FileSystem {
 public:
  // What outlives the power.
  enum class Luck {
    kNone,   // only what was synced
    kNames,  // every name, but of the bytes only those that were synced
    kSome,   // of each folder's changes the first few, of each file's bytes a part; by the seed
  };

  CrashFileSystem() : root_(std::make_shared<Node>(/*is_folder=*/true)) {}

  // Before the n-th operation from now (1 is the next). An Append has by then written a half.
  void LosePowerAt(int n) {
    MutexLock lock(mutex_);
    lost_at_ = operations_ + n;
  }
  void LosePower() {
    MutexLock lock(mutex_);
    off_ = true;
  }
  bool is_off() const {
    MutexLock lock(mutex_);
    return off_;
  }
  int operations() const {
    MutexLock lock(mutex_);
    return operations_;
  }
  void PowerOn(Luck luck, uint64_t seed = 0) {
    MutexLock lock(mutex_);
    off_ = false;
    lost_at_ = -1;
    dice_ = seed;
    Forget(*root_, luck);
  }

  using FileSystem::CreateExclusive;
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(const std::string& path,
                                                                uint32_t) override {
    MutexLock lock(mutex_);
    MUSTER_RETURN_IF_ERROR(Begin());
    MUSTER_ASSIGN_OR_RETURN(Node * folder, FindFolder(Split(path).first));
    const std::string name = Split(path).second;
    if (folder->names.count(name) != 0) return absl::AlreadyExistsError(path);
    auto file = std::make_shared<Node>(/*is_folder=*/false);
    folder->Put(name, file);
    return std::make_unique<File>(*this, std::move(file));
  }
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes) override {
    MutexLock lock(mutex_);
    MUSTER_ASSIGN_OR_RETURN(const Node* file, FindFile(path));
    if (file->bytes.size() > max_bytes) return absl::FailedPreconditionError(path);
    return file->bytes;
  }
  absl::StatusOr<uint64_t> ReadAt(const std::string& path, uint64_t offset, char* buffer,
                                  uint64_t buffer_bytes) override {
    MutexLock lock(mutex_);
    MUSTER_ASSIGN_OR_RETURN(const Node* file, FindFile(path));
    if (offset >= file->bytes.size()) return 0;
    return file->bytes.copy(buffer, buffer_bytes, offset);
  }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    MutexLock lock(mutex_);
    MUSTER_ASSIGN_OR_RETURN(const Node* file, FindFile(path));
    return file->bytes.size();
  }
  absl::StatusOr<bool> Exists(const std::string& path) override {
    MutexLock lock(mutex_);
    MUSTER_RETURN_IF_ERROR(CheckOn());
    return Find(path) != nullptr;
  }
  absl::StatusOr<std::vector<FileInfo>> List(const std::string& directory) override {
    MutexLock lock(mutex_);
    MUSTER_RETURN_IF_ERROR(CheckOn());
    MUSTER_ASSIGN_OR_RETURN(const Node* folder, FindFolder(directory));
    std::vector<FileInfo> files;
    for (const auto& [name, node] : folder->names) {
      files.push_back({name, node->is_folder, node->bytes.size()});
    }
    return files;
  }
  absl::Status MakeDirectories(const std::string& path) override {
    MutexLock lock(mutex_);
    MUSTER_RETURN_IF_ERROR(Begin());
    Node* at = root_.get();
    for (const absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
      const auto it = at->names.find(std::string(part));
      if (it == at->names.end()) at->Put(std::string(part), std::make_shared<Node>(true));
      at = at->names.at(std::string(part)).get();
      if (!at->is_folder) return absl::AlreadyExistsError(path);
    }
    return absl::OkStatus();
  }
  // Within one folder, as everybody here does it.
  absl::Status Rename(const std::string& from, const std::string& to) override {
    MutexLock lock(mutex_);
    MUSTER_RETURN_IF_ERROR(Begin());
    if (Split(from).first != Split(to).first) return absl::UnimplementedError(to);
    MUSTER_ASSIGN_OR_RETURN(Node * folder, FindFolder(Split(from).first));
    const auto it = folder->names.find(Split(from).second);
    if (it == folder->names.end()) return absl::NotFoundError(from);
    const auto there = folder->names.find(Split(to).second);
    if (there != folder->names.end() && !there->second->names.empty()) {
      return absl::AlreadyExistsError(to);
    }
    folder->Move(Split(from).second, Split(to).second);
    return absl::OkStatus();
  }
  absl::Status SyncDirectory(const std::string& path) override {
    MutexLock lock(mutex_);
    MUSTER_RETURN_IF_ERROR(Begin());
    MUSTER_ASSIGN_OR_RETURN(Node * folder, FindFolder(path));
    folder->versions = {folder->names};
    return absl::OkStatus();
  }
  absl::Status RemoveFile(const std::string& path) override {
    MutexLock lock(mutex_);
    MUSTER_RETURN_IF_ERROR(Begin());
    MUSTER_RETURN_IF_ERROR(FindFile(path).status());
    Find(Split(path).first)->Remove(Split(path).second);
    return absl::OkStatus();
  }
  absl::Status RemoveTree(const std::string& path) override {
    MutexLock lock(mutex_);
    MUSTER_RETURN_IF_ERROR(Begin());
    if (Find(path) != nullptr) Find(Split(path).first)->Remove(Split(path).second);
    return absl::OkStatus();
  }

 private:
  struct Node {
    using Names = std::map<std::string, std::shared_ptr<Node>>;
    explicit Node(bool folder) : is_folder(folder) {}
    const bool is_folder;
    Names names;                         // of a folder, now
    std::vector<Names> versions = {{}};  // as synced, and after each change since
    std::string bytes;                   // of a file, now
    std::string synced;

    void Put(const std::string& name, std::shared_ptr<Node> node) {
      names[name] = std::move(node);
      versions.push_back(names);
    }
    void Remove(const std::string& name) {
      names.erase(name);
      versions.push_back(names);
    }
    void Move(const std::string& from, const std::string& to) {
      names[to] = names.at(from);
      names.erase(from);
      versions.push_back(names);
    }
  };

  class File final : public WritableFile {
   public:
    File(CrashFileSystem& fs, std::shared_ptr<Node> node) : fs_(fs), node_(std::move(node)) {}
    absl::Status Append(absl::string_view bytes) override {
      MutexLock lock(fs_.mutex_);
      if (fs_.operations_ + 1 == fs_.lost_at_)
        absl::StrAppend(&node_->bytes, bytes.substr(0, bytes.size() / 2));
      MUSTER_RETURN_IF_ERROR(fs_.Begin());
      absl::StrAppend(&node_->bytes, bytes);
      return absl::OkStatus();
    }
    absl::Status Sync() override {
      MutexLock lock(fs_.mutex_);
      MUSTER_RETURN_IF_ERROR(fs_.Begin());
      node_->synced = node_->bytes;
      return absl::OkStatus();
    }
    absl::Status Close() override {
      MutexLock lock(fs_.mutex_);
      return fs_.Begin();
    }

   private:
    CrashFileSystem& fs_;
    const std::shared_ptr<Node> node_;
  };

  static std::pair<std::string, std::string> Split(const std::string& path) {
    const size_t slash = path.rfind('/');
    return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
  }

  absl::Status CheckOn() const MUSTER_REQUIRES(mutex_) {
    return off_ ? absl::UnavailableError("the power is off") : absl::OkStatus();
  }
  absl::Status Begin() MUSTER_REQUIRES(mutex_) {
    ++operations_;
    if (operations_ == lost_at_) off_ = true;
    return CheckOn();
  }

  Node* Find(const std::string& path) MUSTER_REQUIRES(mutex_) {
    Node* at = root_.get();
    for (const absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
      const auto it = at->names.find(std::string(part));
      if (it == at->names.end()) return nullptr;
      at = it->second.get();
    }
    return at;
  }
  absl::StatusOr<Node*> FindFolder(const std::string& path) MUSTER_REQUIRES(mutex_) {
    Node* node = Find(path);
    if (node == nullptr || !node->is_folder) return absl::NotFoundError(path);
    return node;
  }
  absl::StatusOr<Node*> FindFile(const std::string& path) MUSTER_REQUIRES(mutex_) {
    MUSTER_RETURN_IF_ERROR(CheckOn());
    Node* node = Find(path);
    if (node == nullptr) return absl::NotFoundError(path);
    if (node->is_folder) return absl::FailedPreconditionError(path);
    return node;
  }

  uint64_t Below(uint64_t bound) { return SplitMix64(dice_++) % bound; }

  void Forget(Node& node, Luck luck) {
    if (!node.is_folder) {
      const bool grew = node.bytes.size() > node.synced.size();
      if (luck == Luck::kSome && grew) {
        node.bytes.resize(node.synced.size() + Below(node.bytes.size() - node.synced.size() + 1));
      } else {
        node.bytes = node.synced;
      }
      node.synced = node.bytes;
      return;
    }
    const size_t last = node.versions.size() - 1;
    const size_t kept = luck == Luck::kNone ? 0 : luck == Luck::kNames ? last : Below(last + 1);
    node.names = node.versions[kept];
    node.versions = {node.names};
    for (const auto& [name, child] : node.names) Forget(*child, luck);
  }

  mutable Mutex mutex_;
  const std::shared_ptr<Node> root_;
  int operations_ MUSTER_GUARDED_BY(mutex_) = 0;
  int lost_at_ MUSTER_GUARDED_BY(mutex_) = -1;
  bool off_ MUSTER_GUARDED_BY(mutex_) = false;
  uint64_t dice_ = 0;
};

}  // namespace muster::testing
