// The jobs that have ended, the longest ended first: the input of policy/ended/ended_job_rules.
// Kept between two calls and brought up to date with the rows that changed.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <utility>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/events.h"
#include "controller/policy/ended/ended_job_rules.h"

namespace muster::controller {

// One thread; follows one history of snapshots.
class EndedJobsQueue {
 public:
  // One call evaluates no more than this; the next one goes on from there.
  static constexpr size_t kMostEvaluated = 4096;
  // What stays is evaluated again after this time.
  static constexpr absl::Duration kAgainAfter = absl::Hours(1);

  // `start`: when the controller began, since boot.
  explicit EndedJobsQueue(absl::Duration start) : start_(start) {}

  // The next jobs to be forgotten, about ForgetJobs::kMost at most. `now` is the time since boot.
  ForgetJobs Next(const Snapshot& snapshot, const ForgetSettings& settings, absl::Duration now);

  // How many ended jobs are beyond `settings.most` although the last call found none that may go
  // now, and some must stay; otherwise 0.
  uint64_t stuck() const { return stuck_; }

 private:
  using Entry = std::pair<absl::Time, uint64_t>;  // when it ended (ledger time), its id

  void Follow(const Snapshot& snapshot);
  void TakeBack(const Snapshot& snapshot, absl::Duration now);
  void Leave(uint64_t id, absl::Duration now);

  absl::Duration start_;
  CowTable<Job> jobs_;     // that were followed
  std::set<Entry> ended_;  // to be evaluated; of an array its first job
  // Jobs that were evaluated and must stay: when they are evaluated again, and their ids, in the
  // order of these times. A job is in here once at most. One that changes meanwhile is in ended_ as
  // well, and one that is forgotten meanwhile is passed over when its time comes.
  std::deque<std::pair<absl::Duration, uint64_t>> stayed_;
  std::set<uint64_t> staying_;  // the ids in stayed_
  uint64_t stuck_ = 0;
};

}  // namespace muster::controller
