// A draft of the next snapshot: edits are made on copies, so that nothing is lost when they cannot
// be stored.
//
// The applier makes one per batch, hands it to the rules, stores its changes in one transaction,
// and publishes it only then; a draft that could not be stored is dropped. Reads through view() see
// the edits. Pure; one thread. References from Edit* stay good until Finish.
//
// An edit is stored in the batch's transaction, and the loops, which decide by it, run again. What
// beats is edited apart (EditPulse and what follows it): that stays in memory, is lost with the
// process, and no loop runs for it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/events.h"

namespace muster::controller {

// What one transaction stores.
struct ChangeSet {
  struct AttemptChange {
    std::shared_ptr<const Attempt> attempt;
    std::set<uint32_t> ranks;  // that changed
  };
  std::vector<std::shared_ptr<const Job>> new_jobs;
  std::vector<std::shared_ptr<const Job>> jobs;  // changed, not new
  std::vector<AttemptChange> attempts;           // new or changed
  std::vector<std::shared_ptr<const Worker>> workers;
  std::vector<uint64_t> workers_forgotten;
  std::vector<std::shared_ptr<const Checkpoint>> checkpoints;
  std::vector<std::shared_ptr<const Project>> projects;
  std::vector<RootIdentity> roots;  // new
  std::vector<std::shared_ptr<const JobEvent>> events;
  std::vector<OutboxRow> outbox_added;
  std::vector<uint64_t> outbox_removed;
  uint64_t last_outbox = 0;
  // Jobs that leave, as they were, and jobs that come back, as they come. `archived` is what the
  // database has to keep of those that are not in it; it is stored only when some leave or come.
  std::vector<std::shared_ptr<const Job>> jobs_archived;
  std::vector<ArchivedJob> jobs_restored;
  struct Archived {
    uint64_t last_job = 0;  // ids and sequences that were given
    uint64_t last_checkpoint = 0;
    uint64_t last_event = 0;
    uint64_t put = 0;                          // as Snapshot::archived_put
    uint64_t events = 0;                       // as Snapshot::archived_events
    absl::Time until = absl::InfinitePast();   // as Snapshot::archived_until
    std::map<std::string, ArchivedTime> time;  // of the projects whose changed
  };
  Archived archived;

  bool empty() const;
};

// What follows once the changes are durable.
struct AfterCommit {
  std::vector<Fence> opened;  // attempts that began
  std::vector<Fence> closed;  // and that ended
  struct ClosedLink {
    std::string worker;
    std::string incarnation;
    absl::Status status;
  };
  std::vector<ClosedLink> closed_links;
  // Sent once, on this stream only, and stored nowhere: the next stream gets a new one.
  struct UnstoredMessage {
    std::string worker;
    uint64_t stream = 0;
    Assignment assignment;
  };
  std::vector<UnstoredMessage> unstored_messages;
};

class Draft {
 public:
  // `now_at`, since boot, is the time of all edits: by it the ledgers of jobs are kept.
  Draft(const Snapshot& base, absl::Duration now_at);
  // For tables put together without a clock: ledgers are left as they are.
  explicit Draft(const Snapshot& base);

  const Snapshot& view() const { return *next_; }

  // Requires that the row exists.
  Job& EditJob(uint64_t id);
  Attempt& EditAttempt(uint64_t job_id);                                 // the current one
  Rank& EditRank(uint64_t job_id, uint32_t rank);                        // of the current attempt
  Rank& EditPastRank(uint64_t job_id, uint32_t attempt, uint32_t rank);  // of an earlier one
  Worker& EditWorker(uint64_t id);
  Checkpoint& EditCheckpoint(uint64_t id);
  // Made, with the defaults, at the first call.
  Project& EditProject(const std::string& name);
  // A root that nobody had seen so far.
  void AddRoot(RootIdentity root);
  Counters& counters() { return next_->counters; }

  // In memory only.
  WorkerPulse& EditPulse(uint64_t worker_id);
  // In memory only; the loops run again. Requires that it is in use.
  RootInUse& EditRootInUse(const std::string& path);
  // In memory only, until SaveProgress or another edit of the job stores it.
  struct Progress {
    JobProgress& shown;
    JobLedger& ledger;
  };
  Progress EditProgress(uint64_t job_id);
  // Stored, but no loop runs for it.
  void SaveProgress(uint64_t job_id);
  // Why the job waits: likewise in memory.
  void ShowMessage(uint64_t job_id, std::string message);
  // Something in memory changed that the loops decide by (a worker's presence).
  void WakeLoops() { wakes_loops_ = true; }

  // New rows; the id or sequence is assigned here.
  Job& AddJob(Job job);
  Worker& AddWorker(Worker worker);
  Checkpoint& AddCheckpoint(Checkpoint checkpoint);
  // Makes it the job's current attempt; the one before goes to `past`.
  void AddAttempt(uint64_t job_id, Attempt attempt);
  void AddEvent(JobEvent event);
  void AddOutbox(OutboxRow row);
  void RemoveOutbox(uint64_t seq);

  // The worker is not known any more. Requires that it holds nothing; what was to be told to it is
  // dropped.
  void ForgetWorker(uint64_t id);

  // The job leaves, with its attempts, events and checkpoints. Requires that it has ended, is not
  // edited in this draft, and that nothing refers to it (policy/archive/archivable_jobs). `put`: as
  // ArchiveJobs::put.
  void ArchiveJob(uint64_t id, uint64_t put);
  // A job that left comes back as it was. Requires that its id, and those of its checkpoints and
  // events, were given and are free, and that what it begins from is here.
  void RestoreJob(const ArchivedJob& archived);
  // Jobs that are new, changed or restored in this draft, or whose checkpoints are.
  std::set<uint64_t> EditedJobs() const;

  // The disk is full: shows the changes without storing them, if all of them are of the kind that
  // may be lost (unstored ones, and workers' rows, which are stored later). False: they are not.
  bool LeaveUnstored();

  AfterCommit& after_commit() { return after_commit_; }

  size_t new_jobs() const { return new_jobs_.size(); }
  const std::set<uint64_t>& new_job_ids() const { return new_jobs_; }
  // Jobs that had ended and were queued again in this draft.
  size_t requeued_jobs() const { return requeued_jobs_; }
  // Projects that are known by this draft's new jobs alone.
  const std::set<std::string>& new_projects() const { return new_projects_; }
  // The job that was added or restored in this draft with that owner and key, or null.
  const Job* FindNewJob(absl::string_view owner, absl::string_view idempotency_key) const;

  // What the project's jobs hold and wait for with this draft's changes; view().UseOf is as of the
  // version before. Cost follows the jobs that the draft touches.
  ProjectUse UseOf(const std::string& project) const;

  // As the snapshot's, with this draft's changes: the newest job of that name, or null; jobs that
  // have committed a checkpoint, by RunTimeKey, newest first.
  const Job* FindJobByName(absl::string_view name) const;
  std::vector<uint64_t> ResumableJobs(const std::string& key) const;

  // Works out what is kept over all jobs (the lists of active and retention jobs, the projects'
  // use, names and run times): once, after loading.
  void RebuildJobLists();

  // What to store. Ranks that ended in this draft stop holding their slots, for the ledger, now.
  ChangeSet Changes();
  // The next version; the draft is used up.
  std::shared_ptr<const Snapshot> Finish();

 private:
  Job& MutableJob(uint64_t id);
  Worker& MutableWorker(uint64_t id);
  void EndHolds(Attempt& attempt, std::set<uint32_t>& changed);
  void SettleLedgers();
  void UpdateJobLists(const std::set<uint64_t>& touched);
  void UpdateResumable();
  void UpdateUse();
  void UpdateRoots(const std::set<uint64_t>& touched);
  std::map<std::string, RootInUse>& MutableRoots();
  void UpdateNamesAndRunTimes();
  void AddToTotals(const Job& job, int sign);
  void AddArchived(ChangeSet& changes) const;
  std::map<std::string, uint64_t>& MutableWorkerIds();

  absl::Time now_ = absl::InfinitePast();  // ledger time; InfinitePast: no clock
  std::shared_ptr<Snapshot> next_;
  // The mutable ends of rows that next_ holds already.
  std::map<uint64_t, std::shared_ptr<Job>> jobs_;
  std::map<uint64_t, std::shared_ptr<Attempt>> attempts_;  // by job
  std::map<uint64_t, std::shared_ptr<Worker>> workers_;
  std::map<uint64_t, std::shared_ptr<Checkpoint>> checkpoints_;
  std::map<std::string, std::shared_ptr<Project>> projects_;
  // The rows of jobs_ as they were before; null: new ones.
  std::map<uint64_t, std::shared_ptr<const Job>> jobs_before_;
  std::shared_ptr<std::map<std::string, uint64_t>> worker_ids_;
  std::shared_ptr<std::map<std::string, RootInUse>> roots_in_use_;
  std::vector<RootIdentity> new_roots_;

  std::set<uint64_t> new_jobs_;
  size_t requeued_jobs_ = 0;
  std::set<std::string> new_projects_;
  // By owner and key, whose texts are the jobs' own.
  using Key = std::pair<absl::string_view, absl::string_view>;
  static Key KeyOf(const Job& job) { return {job.owner, job.idempotency_key}; }
  std::map<Key, const Job*> new_keys_;
  std::set<uint64_t> durable_jobs_;
  std::set<uint64_t> saved_progress_;  // of jobs
  std::set<uint64_t> durable_workers_;
  std::vector<uint64_t> forgotten_workers_;
  std::vector<std::shared_ptr<const Job>> archived_jobs_;
  std::vector<ArchivedJob> restored_jobs_;
  std::shared_ptr<std::map<std::string, ArchivedTime>> archived_time_;
  bool left_unstored_ = false;
  std::map<uint64_t, std::set<uint32_t>> durable_ranks_;  // by job
  // Attempts that were replaced within this draft, with their changed ranks.
  std::vector<ChangeSet::AttemptChange> replaced_;
  std::vector<std::shared_ptr<const JobEvent>> events_;
  std::set<uint64_t> outbox_added_;
  std::vector<uint64_t> outbox_removed_;
  bool outbox_changed_ = false;
  AfterCommit after_commit_;
  bool wakes_loops_ = false;
};

}  // namespace muster::controller
