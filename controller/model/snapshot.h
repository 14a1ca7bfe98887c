// One immutable version of all that the controller knows. The applier publishes a new one after
// each commit; versions share what did not change. Any thread reads one for as long as it likes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "controller/model/array_tally.h"
#include "controller/model/tables/cow_map.h"
#include "controller/model/tables/cow_table.h"
#include "controller/model/tables/outbox.h"
#include "controller/model/types/assignment_types.h"
#include "controller/model/types/checkpoint_types.h"
#include "controller/model/types/job_types.h"
#include "controller/model/types/project_types.h"
#include "controller/model/types/worker_types.h"

namespace muster::controller {

// Since this controller started; for metrics.
struct Counters {
  uint64_t stale_reports = 0;     // refused: fenced attempt, generation or incarnation
  uint64_t duplicate_events = 0;  // repeats of what is already durable
  uint64_t checkpoints_committed = 0;
  uint64_t checkpoints_corrupt = 0;
  uint64_t workers_lost = 0;
  std::map<FailureClass, uint64_t> attempts_lost;
  // Of attempts whose ranks were asked to save and leave: what was in danger, what was lost.
  uint64_t stake_slot_seconds = 0;
  uint64_t lost_slot_seconds = 0;
  std::map<JobState, uint64_t> jobs_finished;  // ends, by the state; a job may end again
};

// How long the last jobs of one project and name ran until they succeeded, over all attempts.
struct LearnedRunTime {
  static constexpr size_t kRuns = 5;
  std::array<absl::Duration, kRuns> runs = {};  // newest first; zero: none
  uint32_t jobs = 0;  // that taught this and are here, older ones than these, too
  // The longest of them: a guess on the safe side. Zero: nothing was learned.
  absl::Duration Longest() const;
  bool operator==(const LearnedRunTime&) const = default;
};
std::string RunTimeKey(const JobSettings& settings);

// The jobs of one name.
struct NamedJobs {
  uint64_t newest = 0;
  uint32_t count = 0;
};

struct Snapshot {
  uint64_t version = 0;          // +1 at each publication
  uint64_t durable_version = 0;  // +1 when something changed that a loop may decide by
  std::string controller_id;     // 16 random bytes of the data folder, whose terms these are
  uint64_t term = 0;
  absl::Time started = absl::UnixEpoch();  // when this term began, by the wall clock
  uint64_t last_event = 0;
  uint64_t last_outbox = 0;
  uint64_t last_outbox_before_term = 0;  // as it was when this term began
  // So many of the events up to the last one are of jobs that are not here any more.
  uint64_t archived_events = 0;
  // The newest ledger time of their rows, which it must not fall behind; InfinitePast: none.
  absl::Time archived_until = absl::InfinitePast();
  uint64_t archived_put = 0;  // the newest HistoryStore::Put that jobs have left by
  // Ledger time is this plus the time since boot.
  absl::Time ledger_origin = absl::UnixEpoch();
  absl::Time LedgerTime(absl::Duration since_boot) const { return ledger_origin + since_boot; }
  absl::Duration SinceBoot(absl::Time ledger_time) const { return ledger_time - ledger_origin; }

  CowTable<Job> jobs;
  CowTable<Worker> workers;
  CowTable<Checkpoint> checkpoints;
  CowTable<JobEvent> events;                                          // of these jobs, by sequence
  std::shared_ptr<const std::map<std::string, uint64_t>> worker_ids;  // by name; never null
  // Workers whose rows could not be stored as they are shown, for want of room; null: none. They
  // are stored with the next change that is.
  std::shared_ptr<const std::set<uint64_t>> unstored_workers;
  std::shared_ptr<const std::vector<uint64_t>> active_jobs;  // not terminal, ascending; never null
  std::shared_ptr<const std::vector<uint64_t>>
      retention_jobs;  // with checkpoints to reread or delete; never null
  Outbox outbox;
  std::shared_ptr<const std::map<std::string, std::shared_ptr<const Project>>>
      projects;  // by name: those that were set or have used something; never null
  std::shared_ptr<const std::map<std::string, std::shared_ptr<const ProjectUse>>>
      use;  // by project: those with jobs that hold or wait for slots; never null
  // Active ones that begin from another's checkpoints and have none verified of their own; never
  // null.
  std::shared_ptr<const std::vector<uint64_t>> resuming_jobs;
  // Active ones that were submitted to wait for others (scheduling.after); never null.
  std::shared_ptr<const std::vector<uint64_t>> dependent_jobs;
  CowMap<RootIdentity> roots;  // all that were ever seen, by path
  std::shared_ptr<const std::map<std::string, RootInUse>> roots_in_use;  // by path; never null
  CowMap<ArrayTally> arrays;                                             // by ArrayKey
  CowMap<NamedJobs> by_name;
  CowMap<uint32_t> begun_from;  // jobs that begin from a job's checkpoints (model/job_links.h)
  CowMap<std::shared_ptr<const std::vector<uint64_t>>>
      resumable_jobs;  // jobs that have committed a checkpoint, ascending, by RunTimeKey
  CowMap<LearnedRunTime> run_times;  // of jobs that succeeded, by RunTimeKey
  // Of jobs that are not here any more, by project: at most kMaxArchivedTimes; never null.
  std::shared_ptr<const std::map<std::string, ArchivedTime>> archived_time;
  Counters counters;

  Snapshot();

  const Job* FindJob(uint64_t id) const { return jobs.Find(id); }
  // The id was given, and its job is not here: it ended, and was archived or forgotten
  // (policy/archive), or a state.db that knew it was lost.
  bool IsForgottenOrArchived(uint64_t job_id) const {
    return job_id != 0 && job_id <= jobs.last_id() && FindJob(job_id) == nullptr;
  }
  // The newest job of that name, or null.
  const Job* FindJobByName(absl::string_view name) const;
  const Worker* FindWorker(const std::string& name) const;
  const Checkpoint* FindCheckpoint(uint64_t id) const { return checkpoints.Find(id); }
  // Null: one that nobody has set, with the defaults.
  const Project* FindProject(const std::string& name) const;
  ProjectUse UseOf(const std::string& project) const;
  // Empty: nobody has seen the root yet.
  std::string IdentityOf(const std::string& root) const;
};

// The job's attempt of that number, or null.
const Attempt* FindAttempt(const Job& job, uint32_t number);

// The rank whose end or standstill is the cause of the attempt's end; null: no rank's alone is.
const Rank* FailedRank(const Attempt& attempt);

// What the job itself adds to the use of its project and owner.
Use UseOf(const Job& job);

// The live rank process that the fence and number name on that agent, or null: then the report is
// stale.
const Rank* FindLiveRank(const Snapshot& snapshot, const Fence& fence, uint32_t rank,
                         absl::string_view worker, absl::string_view incarnation);

// Notes on the worker that the rank of (job_id, attempt) holds its slots, CPUs and memory.
void HoldSlots(WorkerPulse& pulse, const JobNeeds& needs, uint64_t job_id, uint32_t attempt,
               const Rank& rank);

// Whether the worker sees the checkpoint root that the job needs: it may read and delete there.
bool SeesRoot(const Worker& worker, const JobNeeds& needs);
// And can save in it: the job may run there.
bool CanUseRoot(const Worker& worker, const JobNeeds& needs);

}  // namespace muster::controller
