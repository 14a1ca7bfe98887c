// The checkpoint store that every machine reaches unless its mount is away: which folders are
// there, and whether what is in them is whole. It is the truth that the controller's rows are held
// against.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster::sim {

class Storage {
 public:
  struct Folder {
    uint64_t job_id = 0;
    uint32_t attempt = 0;
    int64_t step = 0;
    std::string manifest_sha256;
    bool whole = true;
    uint32_t called_missing = 0;  // by agents that read wrongly
    // Nobody but one that reads wrongly could be asked: what it said of the folder counts.
    bool given_up = false;
  };
  // What a machine makes of a folder that is whole.
  enum class Misreading {
    kNone,
    kOtherBytes,  // its memory is bad
    kNothing,     // its view is stale
    kError,
  };

  // Asked before a folder goes; for the invariants.
  std::function<void(const std::string& path, const Folder&)> on_delete = [](const std::string&,
                                                                             const Folder&) {};

  // Where it is mounted under, and what its marker says; empty: it has none yet.
  static constexpr char kRoot[] = "/ckpt";
  std::string marker;
  // Machines on which it is not mounted now; `away`: on none of them.
  std::set<std::string> unmounted;
  bool away = false;
  bool IsSeenBy(const std::string& machine) const { return !away && unmounted.count(machine) == 0; }

  // Machines that read wrongly now.
  std::map<std::string, Misreading> misreadings;
  Misreading MisreadingOf(const std::string& machine) const {
    const auto it = misreadings.find(machine);
    return it == misreadings.end() ? Misreading::kNone : it->second;
  }

  // Jobs name data, and agents look at them: `data_looks` by incarnation, with what each said last
  // of which data: whether they are sound.
  bool has_data = false;
  std::map<std::string, std::map<std::string, bool>> data_looks;

  void Publish(const std::string& path, Folder folder) { folders_[path] = std::move(folder); }
  absl::Status Verify(const std::string& path, const std::string& manifest_sha256) const {
    const auto it = folders_.find(path);
    if (it == folders_.end()) return absl::NotFoundError(absl::StrCat(path, ": not there"));
    if (!it->second.whole) return absl::DataLossError(absl::StrCat(path, ": bad hash"));
    if (it->second.manifest_sha256 != manifest_sha256) {
      return absl::DataLossError(absl::StrCat(path, ": another manifest"));
    }
    return absl::OkStatus();
  }
  // What a reader says of it.
  absl::Status Read(const std::string& path, const std::string& manifest_sha256,
                    Misreading misreading) const {
    const absl::Status truth = Verify(path, manifest_sha256);
    if (!truth.ok()) return truth;
    switch (misreading) {
      case Misreading::kNone:
        return truth;
      case Misreading::kOtherBytes:
        return absl::DataLossError(absl::StrCat(path, ": bad hash, misread"));
      case Misreading::kNothing:
        return absl::NotFoundError(absl::StrCat(path, ": not there, misread"));
      case Misreading::kError:
        return absl::UnavailableError(absl::StrCat(path, ": input/output error"));
    }
    return truth;
  }
  void NoteCalledMissing(const std::string& path) {
    const auto it = folders_.find(path);
    if (it != folders_.end()) ++it->second.called_missing;
  }
  void GiveUp(const std::string& path) {
    const auto it = folders_.find(path);
    if (it != folders_.end()) it->second.given_up = true;
  }
  void Delete(const std::string& path) {
    const auto it = folders_.find(path);
    if (it == folders_.end()) return;
    on_delete(path, it->second);
    folders_.erase(it);
  }
  // Bits rot.
  void Corrupt(const std::string& path) {
    const auto it = folders_.find(path);
    if (it != folders_.end()) it->second.whole = false;
  }
  const Folder* Find(const std::string& path) const {
    const auto it = folders_.find(path);
    return it == folders_.end() ? nullptr : &it->second;
  }
  const std::map<std::string, Folder>& folders() const { return folders_; }

 private:
  std::map<std::string, Folder> folders_;
};

}  // namespace muster::sim
