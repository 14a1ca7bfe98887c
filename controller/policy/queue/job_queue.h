// The jobs that wait for slots, in the order in which they are to be placed: by priority, then by
// project (fair share), then by submit. Fed with the jobs that changed; never sorted as a whole.
//
// Jobs alike in priority, project, owner, array, needs and the pools that count for them by now
// form a group: when one of them cannot be placed now, none of the others can. Those that are still
// leaving their slots form groups of their own, since no quota holds them back. Pure; not
// thread-safe. What it holds is a function of the snapshot's jobs and the time of the last Advance.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "controller/model/snapshot.h"
#include "controller/policy/placement/demand.h"
#include "controller/policy/queue/admission.h"
#include "controller/policy/queue/schedule_context.h"

namespace muster::controller {

struct JobGroup {
  std::string key;
  int32_t priority = 0;
  std::string project;
  std::string owner;
  uint64_t array_id = 0;
  uint32_t at_a_time = 0;
  bool recovering = false;
  std::shared_ptr<Demand> demand;
  std::set<uint64_t> jobs;  // ready, or soon
};

class JobQueue {
 public:
  // One project's groups at one priority, by their first job.
  using Bucket = std::map<uint64_t, JobGroup*>;
  using Level = std::map<std::string, Bucket>;                // by project
  using Levels = std::map<int32_t, Level, std::greater<>>;    // highest priority first
  using Due = std::set<std::pair<absl::Duration, uint64_t>>;  // since boot, job
  using DueByWall = std::set<std::pair<absl::Time, uint64_t>>;

  // The job's row is another one: `job` null when it is gone.
  void Put(const Snapshot& snapshot, uint64_t id, const Job* job, const ScheduleContext& context);
  // Takes in what became due since: ends of back-offs, begin times, further pools. After the wall
  // clock was set back, what is due no more.
  void Advance(const Snapshot& snapshot, const ScheduleContext& context);

  const Levels& levels() const { return levels_; }
  // Jobs that wait for something else than slots and whose message does not say so yet.
  const std::set<uint64_t>& unexplained() const { return unexplained_; }
  // Jobs of the array that have a live attempt.
  uint32_t LiveOfArray(uint64_t array_id) const;
  bool AnyRecovering(const std::string& project) const { return recovering_.count(project) != 0; }
  // The next moment at which time alone changes what may be placed.
  absl::Duration NextDue(const ScheduleContext& context) const;
  size_t size() const { return size_; }

 private:
  struct Where {
    JobGroup* group = nullptr;
    absl::Duration again_at = absl::InfiniteDuration();
    absl::Time again = absl::InfiniteFuture();
    std::vector<absl::Duration> fall_backs;
    uint64_t waits_for = 0;
    bool waits_for_array = false;
    uint64_t array_id = 0;  // when it counts as live there
  };

  // What a decision on an array depends on. It changes a few times while thousands of tasks end.
  struct ArrayOutlook {
    bool all_ended = false;
    uint64_t first_succeeded = 0;
    uint64_t first_failed = 0;
    bool operator==(const ArrayOutlook&) const = default;
  };
  struct ArrayWaiters {
    ArrayOutlook outlook;
    std::set<uint64_t> jobs;
  };
  static ArrayOutlook OutlookOf(const Snapshot& snapshot, uint64_t array_id);

  // Puts the job where it belongs by now.
  void Evaluate(const Snapshot& snapshot, uint64_t id, const Job* job,
                const ScheduleContext& context);
  void Forget(uint64_t id, Where& where);
  // `now` in ledger time.
  void Enqueue(const Job& job, Where& where, absl::Time now);
  void Leave(uint64_t id, JobGroup& group);
  JobGroup& GroupOf(const Job& job, absl::Time now);
  std::shared_ptr<Demand> DemandOf(const JobNeeds& needs);

  Levels levels_;
  std::unordered_map<std::string, std::unique_ptr<JobGroup>> groups_;
  std::unordered_map<std::string, std::weak_ptr<Demand>> demands_;
  std::unordered_map<uint64_t, Where> where_;
  std::unordered_map<uint64_t, std::set<uint64_t>> waiters_;  // by the job that is waited for
  std::unordered_map<uint64_t, ArrayWaiters> array_waiters_;
  std::unordered_map<uint64_t, uint32_t> live_of_array_;
  std::unordered_map<std::string, uint32_t> recovering_;  // how many in the queue, by project
  std::set<uint64_t> unexplained_;
  Due due_;
  DueByWall due_by_wall_;
  Due fall_backs_;                          // when a further pool counts
  absl::Time wall_ = absl::InfinitePast();  // of the last Advance
  size_t size_ = 0;
};

}  // namespace muster::controller
