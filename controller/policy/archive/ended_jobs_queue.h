// The jobs that have ended, the longest ended first: those that policy/archive/archivable_jobs
// evaluates. Kept between two looks and brought up to date with the rows that changed.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"
#include "controller/policy/archive/archivable_jobs.h"

namespace muster::controller {

// One thread; follows one history of snapshots.
class EndedJobsQueue {
 public:
  // One look evaluates no more than this; the next one goes on from there.
  static constexpr size_t kMostEvaluated = 4096;
  // What stays is evaluated again after this time, or sooner when its row changes.
  static constexpr absl::Duration kAgainAfter = absl::Hours(1);

  // `start`: when the controller began, since boot.
  explicit EndedJobsQueue(absl::Duration start) : start_(start) {}

  // The next jobs to be archived, about ArchiveJobs::kMost at most. `now` is the time since boot.
  std::vector<EndedJobs> Next(const Snapshot& snapshot, const ArchiveSettings& settings,
                              absl::Duration now);

 private:
  using Entry = std::pair<absl::Time, uint64_t>;  // when it ended (ledger time), its id

  void Follow(const Snapshot& snapshot);
  void TakeBack(const Snapshot& snapshot, absl::Duration now);
  void Leave(uint64_t id, absl::Duration now);
  void TakeBackSourcesOf(const Snapshot& snapshot, const Job& archived);

  absl::Duration start_;
  CowTable<Job> jobs_;     // that were followed
  std::set<Entry> ended_;  // to be evaluated; of an array its first job
  // Jobs that were evaluated and must stay: when they are evaluated again, and their ids, in the
  // order of these times. A job is in here once at most. One that changes meanwhile is in ended_ as
  // well, and one that is archived meanwhile is passed over when its time comes.
  std::deque<std::pair<absl::Duration, uint64_t>> stayed_;
  std::set<uint64_t> staying_;  // the ids in stayed_
};

}  // namespace muster::controller
