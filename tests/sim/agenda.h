// Virtual time: what happens next, and when. One thread; the clock jumps from one entry to the
// next.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace muster::sim {

class Agenda {
 public:
  using Id = uint64_t;

  Clock& clock() { return clock_; }
  absl::Duration now() { return clock_.SinceBoot(); }
  void JumpWall(absl::Duration by) {
    clock_.JumpWall(by);
    wall_error_ += by;
  }
  void SetWallRight() { JumpWall(-wall_error_); }
  // What the wall clock would say had nobody set it.
  absl::Time TrueTime() { return clock_.Now() - wall_error_; }

  Id After(absl::Duration delay, std::function<void()> action) {
    const absl::Duration at = now() + std::max(delay, absl::ZeroDuration());
    const Id id = ++last_id_;
    entries_.emplace(std::make_pair(at, id), std::move(action));
    due_.emplace(id, at);
    return id;
  }
  void Cancel(Id id) {
    const auto it = due_.find(id);
    if (it == due_.end()) return;
    entries_.erase({it->second, id});
    due_.erase(it);
  }

  // Runs the next entry; false when there is none before `end`.
  bool RunNext(absl::Duration end) {
    if (entries_.empty() || entries_.begin()->first.first > end) return false;
    auto node = entries_.extract(entries_.begin());
    due_.erase(node.key().second);
    if (node.key().first > now()) clock_.Advance(node.key().first - now());
    node.mapped()();
    return true;
  }
  void Clear() {
    entries_.clear();
    due_.clear();
  }

 private:
  SimulatedClock clock_;
  absl::Duration wall_error_;
  std::map<std::pair<absl::Duration, Id>, std::function<void()>> entries_;
  std::map<Id, absl::Duration> due_;
  Id last_id_ = 0;
};

}  // namespace muster::sim
