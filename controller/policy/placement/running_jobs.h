// The jobs that hold slots: what their projects owe for it, and when the slots come back. Fed with
// the jobs that changed. Pure; not thread-safe.
//
// Starts count by the minute, so that the sum over them is short and does not depend on the order
// of what happened.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

class RunningJobs {
 public:
  using Ends = std::set<std::pair<absl::Time, uint64_t>>;

  // The job's row is another one: `job` null when it is gone.
  void Put(const Snapshot& snapshot, uint64_t id, const Job* job);
  // The learned run times of this project and name are others.
  void RunTimesChanged(const Snapshot& snapshot, const std::string& run_time_key);

  // What the project's live attempts are worth at `now`, in ledger time
  // (policy/limits/fair_share.h).
  double DecayedAt(const std::string& project, absl::Time now, absl::Duration half_life) const;
  // Jobs with a known end, by it, in ledger time; InfinitePast: being ended. Those that ran longer
  // than expected are still there.
  const Ends& ends() const { return ends_; }
  // Whether one may be preempted that has a lower priority.
  bool AnyBelow(int32_t priority) const {
    return !priorities_.empty() && priorities_.begin()->first < priority;
  }
  // Those with a range of ranks.
  const std::set<uint64_t>& elastic() const { return elastic_; }

 private:
  struct Row {
    std::string project;
    std::string run_time_key;
    uint32_t slots = 0;
    int64_t started_minute = 0;               // likewise in ledger time
    absl::Time end = absl::InfiniteFuture();  // ledger time
    bool preemptible = false;
    int32_t priority = 0;
  };
  using Starts = std::map<int64_t, uint32_t>;  // slots by the minute of their start

  void Forget(uint64_t id, const Row& row);

  std::unordered_map<uint64_t, Row> rows_;
  std::unordered_map<std::string, Starts> starts_;  // by project
  std::unordered_map<std::string, std::set<uint64_t>> by_run_time_key_;
  Ends ends_;
  std::map<int32_t, uint32_t> priorities_;  // of those that may be preempted: how many have it
  std::set<uint64_t> elastic_;
};

}  // namespace muster::controller
