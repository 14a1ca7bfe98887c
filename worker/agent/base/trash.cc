#include "worker/agent/base/trash.h"

#include <deque>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/fs/remove_tree.h"

namespace muster::worker {

// Outlives the object where its thread is left behind.
struct Trash::State {
  State(FileSystem& fs, absl::Duration retry_interval) : fs(fs), retry_interval(retry_interval) {}

  FileSystem& fs;
  const absl::Duration retry_interval;
  Mutex mutex;
  CondVar changed;
  bool stopping MUSTER_GUARDED_BY(mutex) = false;
  bool ended MUSTER_GUARDED_BY(mutex) = false;  // its thread
  uint64_t next MUSTER_GUARDED_BY(mutex) = 1;
  std::deque<std::string> waiting MUSTER_GUARDED_BY(mutex);
  std::map<std::string, absl::Status> stuck MUSTER_GUARDED_BY(mutex);  // by path
};

Trash::Trash(FileSystem& fs, std::string root, absl::Duration retry_interval)
    : fs_(fs), root_(std::move(root)), state_(std::make_shared<State>(fs, retry_interval)) {
  std::thread([state = state_] { Run(state); }).detach();
}

Trash::~Trash() {
  MutexLock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.NotifyAll();
  RealClock clock;
  const absl::Duration deadline = clock.SinceBoot() + kEndPatience;
  while (!state_->ended) {
    const absl::Duration left = deadline - clock.SinceBoot();
    if (left <= absl::ZeroDuration()) break;
    state_->changed.WaitFor(state_->mutex, left);
  }
  if (!state_->ended) Log(LogLevel::kInfo, "removal_left_to_the_next_agent", {{"folder", root_}});
}

void Trash::TakeLeftovers() {
  const absl::StatusOr<std::vector<FileInfo>> files = fs_.List(root_);
  if (!files.ok()) return;  // none is there yet, most likely; Throw says what else it is
  for (const FileInfo& file : *files) {
    uint64_t number = 0;
    const bool is_ours = absl::SimpleAtoi(file.name.substr(0, file.name.find('.')), &number);
    {
      MutexLock lock(state_->mutex);
      if (is_ours && number < UINT64_MAX) state_->next = std::max(state_->next, number + 1);
    }
    Enqueue(absl::StrCat(root_, "/", file.name));
  }
}

absl::Status Trash::MoveIn(const std::string& path, const std::string& to) {
  const absl::Status moved = fs_.Rename(path, to);
  // A folder that may not be written keeps its parent.
  if (!absl::IsPermissionDenied(moved) || !MakeFolderWritable(path).ok()) return moved;
  return fs_.Rename(path, to);
}

absl::Status Trash::Throw(const std::string& path) {
  uint64_t number = 0;
  {
    MutexLock lock(state_->mutex);
    number = state_->next++;
  }
  const std::string to = absl::StrCat(root_, "/", number, ".", path.substr(path.rfind('/') + 1));
  absl::Status moved = MoveIn(path, to);
  if (absl::IsNotFound(moved)) {
    const absl::StatusOr<bool> is_there = fs_.Exists(path);
    if (is_there.ok() && !*is_there) return absl::OkStatus();
    if (moved = fs_.MakeDirectories(root_); moved.ok()) moved = MoveIn(path, to);
  }
  if (!moved.ok()) {
    Log(LogLevel::kWarning, "folder_not_moved_aside", {{"error", moved.ToString()}});
  }
  Enqueue(moved.ok() ? to : path);
  return moved;
}

void Trash::Enqueue(std::string path) {
  MutexLock lock(state_->mutex);
  state_->waiting.push_back(std::move(path));
  state_->changed.NotifyAll();
}

size_t Trash::stuck() {
  MutexLock lock(state_->mutex);
  return state_->stuck.size();
}

void Trash::Run(const std::shared_ptr<State>& state) {
  while (true) {
    std::string path;
    {
      MutexLock lock(state->mutex);
      while (state->waiting.empty() && !state->stopping) {
        if (state->stuck.empty()) {
          state->changed.Wait(state->mutex);
        } else if (!state->changed.WaitFor(state->mutex, state->retry_interval)) {
          for (const auto& [again, why] : state->stuck) state->waiting.push_back(again);
        }
      }
      if (state->stopping) {
        state->ended = true;
        state->changed.NotifyAll();
        return;
      }
      path = std::move(state->waiting.front());
      state->waiting.pop_front();
    }
    const absl::Status removed = state->fs.RemoveTree(path);
    bool is_news = false;
    {
      MutexLock lock(state->mutex);
      const auto known = state->stuck.find(path);
      is_news = known == state->stuck.end() ? !removed.ok() : known->second != removed;
      removed.ok() ? static_cast<void>(state->stuck.erase(path))
                   : static_cast<void>(state->stuck[path] = removed);
    }
    if (!is_news) continue;
    removed.ok()
        ? Log(LogLevel::kInfo, "trash_removed", {{"folder", path}})
        : Log(LogLevel::kWarning, "trash_stays", {{"folder", path}, {"error", removed.ToString()}});
  }
}

}  // namespace muster::worker
