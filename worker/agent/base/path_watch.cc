#include "worker/agent/base/path_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/units.h"

namespace muster::worker {
namespace {

// Looks at a job in one patience.
constexpr int kPathChecks = 8;

}  // namespace

void PathWatch::Touch(const std::string& path) {
  MutexLock lock(mutex_);
  path_ = path;
  since_ = clock_.SinceBoot();
}

void PathWatch::GetOn() {
  MutexLock lock(mutex_);
  since_ = clock_.SinceBoot();
}

absl::Duration PathWatch::Idle() const {
  MutexLock lock(mutex_);
  return clock_.SinceBoot() - since_;
}

absl::Status PathWatch::Stall() const {
  MutexLock lock(mutex_);
  const absl::Duration idle = clock_.SinceBoot() - since_;
  const std::string what = path_.empty() ? "a thread of this worker" : path_;
  return absl::DeadlineExceededError(
      absl::StrCat(what, " has not answered for ", HumanDuration(idle),
                   "; does its file system hang (a mount whose server is gone)?"));
}

void WatchForStall(Timers& timers, std::weak_ptr<const PathWatch> watch, absl::Duration patience,
                   std::function<void(const absl::Status&)> on_stall) {
  timers.After(patience / kPathChecks, [&timers, watch, patience, on_stall = std::move(on_stall)] {
    const std::shared_ptr<const PathWatch> held = watch.lock();
    if (held == nullptr) return;
    if (held->Idle() > patience) return on_stall(held->Stall());
    WatchForStall(timers, watch, patience, on_stall);
  });
}

}  // namespace muster::worker
