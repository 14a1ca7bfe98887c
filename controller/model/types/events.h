// Everything that can happen to the controller: the API turns requests and reports into these, the
// loops make the rest, and only the applier acts on them. Plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "controller/model/types/assignment_types.h"
#include "controller/model/types/checkpoint_types.h"
#include "controller/model/types/plan.h"
#include "controller/model/types/project_types.h"
#include "controller/model/types/worker_types.h"

namespace muster::controller {

// ---- from people ----

// The jobs of one array: first to last, each a job of its own.
struct ArrayRange {
  uint32_t first = 0;
  uint32_t last = 0;
  uint32_t at_a_time = 0;  // 0: no bound

  uint32_t size() const { return last - first + 1; }
};

// Which checkpoints of which other job a job is to begin from (checkpoint.resume_from).
struct ResumeRequest {
  enum class Which : uint8_t { kNewestFew, kStep, kBest, kNewest };
  bool automatic = false;        // the newest job of its own name and project that has any; else
  uint64_t job_id = 0;           // this job,
  std::optional<uint32_t> task;  // or this task of the array that job_id names,
  std::string job_name;          // or the newest job of this name
  Which which = Which::kNewestFew;
  int64_t step = 0;
};

struct SubmitJob {
  std::shared_ptr<const JobSettings> settings;
  std::string owner;
  std::string idempotency_key;                     // empty: none
  std::optional<ArrayRange> array = std::nullopt;  // all of it or nothing
  // Settled with the submit; the settings' own resume_from is not looked at.
  std::optional<ResumeRequest> resume = std::nullopt;
  // When the key was looked for among archived jobs (since boot); infinite: it need not be.
  absl::Duration key_sought_at = absl::InfiniteDuration();
};

struct CancelJob {
  uint64_t job_id = 0;
  std::string actor;         // "user:NAME"
  bool whole_array = false;  // as in ControlJob
};

// What people do with jobs besides. Asked again it changes nothing more; a requeue is known again
// by its request id.
struct ControlJob {
  enum class Verb : uint8_t {
    kHold = 1,
    kRelease = 2,
    kSuspend = 3,
    kResume = 4,
    kRequeue = 5
  };  // as ControlJobRequest.Verb
  Verb verb = Verb::kHold;
  uint64_t job_id = 0;
  std::string actor;
  bool whole_array = false;  // every job of job_id's array that the verb fits; job_id is its first
  std::string request_id;    // of a requeue; empty: no protection against a repeat
};

// Changes what is given of a job that has not ended.
struct UpdateJob {
  uint64_t job_id = 0;
  std::string actor;
  bool whole_array = false;  // as in ControlJob
  std::optional<int32_t> priority = std::nullopt;
  std::vector<JobNeeds::Pool> pools = {};  // empty: as they are
  std::optional<absl::Duration> max_run_time = std::nullopt;
  std::optional<absl::Time> deadline = std::nullopt;
  std::optional<absl::Time> begin = std::nullopt;
};

// Drains a worker (nothing new, jobs there save and leave, or run to their end), or ends that.
struct CordonWorker {
  std::string worker;
  bool cordoned = true;
  std::string reason;
  std::string actor;
  bool let_finish = false;  // what runs there
};

// Takes a lost worker out of the list, so that its name is free and nothing is shown of it any
// more. NOT_FOUND; FAILED_PRECONDITION while it is live, or holds slots and is not said to be gone.
struct ForgetWorker {
  std::string worker;
  std::string actor;
  bool gone = false;  // a person vouches that the machine is off: what it held is free
};

// Has an agent reread a checkpoint. Answered when the assignment is durable; the result shows as
// Checkpoint::rereads + 1.
struct RequestVerify {
  uint64_t checkpoint_id = 0;
};

// What people do with kept checkpoints. Asked again it changes nothing more.
struct ControlCheckpoint {
  enum class Verb : uint8_t {
    kPin = 1,
    kUnpin = 2,
    kRemove = 3
  };  // as ControlCheckpointRequest.Verb
  Verb verb = Verb::kPin;
  uint64_t checkpoint_id = 0;
  std::string actor;
  bool force = false;  // of a removal: though its job has no other verified one
};

// Weight and quotas of a project; what is not given stays as it is. A Quota stands for both its
// bounds: an empty one lifts them. INVALID_ARGUMENT: a weight out of range, too many users.
struct SetProject {
  std::string project;
  std::optional<double> weight;
  std::optional<Quota> quota;
  std::optional<Quota> each_user;
  std::map<std::string, std::optional<Quota>> users;  // nullopt: as each_user again
  std::string actor;                                  // "user:NAME"
};

// ---- from agents. `worker` and `incarnation` are those of the stream's Hello, event_seq as in
// WorkerMessage ----

struct WorkerHello {
  std::string worker;
  std::string incarnation;
  uint64_t stream = 0;  // names the Control stream; set by the engine
  WorkerFacts facts;
  std::string last_controller;  // the one that the agent has seen last; empty: not said
  uint64_t last_term = 0;       // the highest of that one
  std::vector<RankStatus> ranks;
  std::optional<uint64_t> acknowledged_event_seq;  // nullopt: not said
  uint64_t last_assignment_seq = 0;                // the highest that it has taken; 0: none
  // Of the controller that it has served last (Snapshot::started); nullopt: none, or not said.
  std::optional<absl::Time> last_started;
  std::string identity;                   // of its data folder; empty: not said
  std::vector<std::string> predecessors;  // incarnations that it has shown to be dead
  bool takes_no_work = false;             // as after its notice, which comes, or has come
  bool checks_data = false;               // it answers CheckData
};

struct WorkerDisconnected {
  std::string worker;
  std::string incarnation;
  uint64_t stream = 0;  // void if the worker has another one by now; set by the engine
};

struct WorkerHeartbeat {
  std::string worker;
  std::string incarnation;
  std::vector<RankStatus> ranks;
  std::shared_ptr<const WorkerUse> use = nullptr;    // null: not said
  std::shared_ptr<const RootViews> roots = nullptr;  // null: as last said
  std::vector<DataVerdict> data = {};                // what is not in it is as last said
};

struct AssignmentAcked {
  std::string worker;
  std::string incarnation;
  uint64_t outbox_seq = 0;
  std::string refusal;
};

struct RankReport {
  enum class Kind : uint8_t {
    kStarted = 1,
    kRunning = 2,
    kExited = 3,
    kUnkillable = 4
  };  // as RankEvent.Kind
  std::string worker;
  std::string incarnation;
  uint64_t event_seq = 0;
  Fence fence;
  uint32_t rank = 0;
  Kind kind = Kind::kStarted;
  uint32_t pid = 0;
  int32_t exit_code = 0;
  int32_t signal = 0;
  bool succeeded = false;
  bool stopped = false;
  FailureClass failure_class = FailureClass::kNone;
  Missing missing = Missing::kNothing;
  std::string message;
  int64_t last_step = 0;
  std::map<std::string, double> results;
  std::optional<std::array<uint64_t, 2>> log_bytes;  // as Rank's
};

struct CheckpointReport {
  enum class Kind : uint8_t {
    kBegin = 1,
    kCommit = 2,
    kFailed = 3,
    kCorrupt = 4,
    kUnread = 5
  };  // as CheckpointEvent.Kind
  std::string worker;
  std::string incarnation;
  uint64_t event_seq = 0;
  Fence fence;
  Kind kind = Kind::kBegin;
  int64_t step = 0;
  std::string path;
  std::string manifest_sha256;
  uint64_t bytes = 0;
  double epoch = 0;
  std::map<std::string, double> metrics;
  bool best = false;
  std::string message;
};

struct VerifyReport {
  std::string worker;
  std::string incarnation;
  uint64_t event_seq = 0;
  uint64_t outbox_seq = 0;
  uint64_t checkpoint_id = 0;
  bool ok = false;
  std::string message;
  bool missing = false;  // as VerifyResult's
};

struct DeleteReport {
  std::string worker;
  std::string incarnation;
  uint64_t event_seq = 0;
  uint64_t outbox_seq = 0;
  uint64_t checkpoint_id = 0;
  bool ok = false;
  std::string message;
};

// The worker will go away: jobs there save and leave. Or, withdrawn, it takes work again.
struct WorkerNotice {
  std::string worker;
  std::string incarnation;
  uint64_t event_seq = 0;
  std::string message;
  absl::Duration grace;
  bool withdrawn = false;
};

// ---- from the controller's own loops ----

struct ApplyPlan {
  Plan plan;
};

struct WorkerSilent {
  std::string worker;
  std::string incarnation;
  Presence presence = Presence::kSuspect;  // or kLost
  absl::Duration last_seen_at;             // what the loop saw; void if the worker has spoken since
};

struct StartTimedOut {
  uint64_t job_id = 0;
  uint32_t attempt = 0;
  absl::Duration waited;  // since its placement, or the last sign that its start goes on
  // When that was, as the loop saw it. If the start has given a later sign by the time this is
  // applied, the finding is dropped.
  absl::Duration got_on_at;
};

struct RankHung {
  uint64_t job_id = 0;
  uint32_t attempt = 0;
  uint32_t rank = 0;
  absl::Duration silent_for;
  // When it last made progress, as the loop saw it. If it has made some since, the finding is
  // dropped when it is applied.
  absl::Duration progress_at;
};

// The job has run, waited or depended for longer than it may: see policy/limits/time_limits.
struct LimitPassed {
  uint64_t job_id = 0;
};

// The worker has been lost for so long that it is forgotten.
struct WorkerExpired {
  std::string worker;
  absl::Duration last_seen_at;  // what the loop saw; void if the worker has spoken since
  bool gone = false;            // it was lost with ranks; they are taken for dead
};

using Finding = std::variant<WorkerSilent, StartTimedOut, RankHung, LimitPassed, WorkerExpired>;

// What one look of a loop found: one event, however much it is, so that no loop fills the applier's
// queue. Each finding is evaluated again by itself; one that is void by now changes nothing.
struct Findings {
  // What one event carries at most; the next look goes on from there.
  static constexpr size_t kMost = 1024;

  std::vector<Finding> found;
};

struct AssignCheckpointWork {
  struct Action {
    AssignmentKind kind = AssignmentKind::kVerify;  // or kDelete
    uint64_t checkpoint_id = 0;
    std::string worker;
    std::string reason;
  };
  std::vector<Action> actions;
};

// Who watches which checkpoint roots, and what is settled of them: see
// policy/checkpoints/root_rules.
struct ReconcileRoots {
  // The root's identity from now on.
  struct Settle {
    std::string path;
    std::string identity;
    std::string worker;  // that found it
  };
  std::vector<Settle> settle;
  // Who finds out about a root that nobody has seen yet.
  struct Claim {
    std::string path;
    std::string worker;
  };
  std::vector<Claim> claims;
  // Workers whose list changes: all that each is to look at from now on.
  struct Ask {
    std::string worker;
    uint64_t stream = 0;  // void on another one
    std::vector<RootToWatch> roots;
  };
  std::vector<Ask> asks;
};

// A job that has left the model, as history.db has it (model/history.h).
struct ArchivedJob {
  std::shared_ptr<const Job> job;
  std::vector<std::shared_ptr<const Checkpoint>> checkpoints;  // the job's, oldest first
};

// Jobs that ended long ago leave the model, since history.db has them (policy/archive). A group is
// one job, or all tasks of an array. It is evaluated again; one of which any row is another one
// than here stays.
struct ArchiveJobs {
  // About so many jobs, and events of theirs, leave by one event. An array leaves whole.
  static constexpr size_t kMost = 256;
  static constexpr size_t kMostEvents = 8192;

  using Group = std::vector<ArchivedJob>;
  std::vector<Group> groups;
  uint64_t put = 0;  // number of the Put that brought them to history.db
};

// Jobs that history.db has come back, since somebody wants something of them: before the event that
// names them (Engine::Posted), which is refused if this is. What a job begins from comes before it.
// Those that are here already stay as they are.
struct RestoreJobs {
  std::vector<ArchivedJob> jobs;
  // Ids that the other event counts on: here already, or of `jobs`. One that has left meanwhile is
  // UNAVAILABLE: whoever asks again finds it in history.db.
  std::set<uint64_t> needed;
};
// All that one event needs. Jobs may be in several.
using RestoreList = std::vector<std::shared_ptr<const RestoreJobs>>;

using Event =
    std::variant<SubmitJob, CancelJob, ControlJob, UpdateJob, CordonWorker, ForgetWorker,
                 RequestVerify, ControlCheckpoint, SetProject, WorkerHello, WorkerDisconnected,
                 WorkerHeartbeat, AssignmentAcked, RankReport, CheckpointReport, VerifyReport,
                 DeleteReport, WorkerNotice, ApplyPlan, Findings, AssignCheckpointWork, ArchiveJobs,
                 RestoreJobs, ReconcileRoots>;

// ---- the answer ----

struct StaleRank {
  uint64_t job_id = 0;
  uint32_t attempt = 0;
  uint32_t rank = 0;
};

struct EventResult {
  // OK: done, or done before (a repeat). Otherwise see Engine::Post.
  absl::Status status;
  // The report was understood but its fence is dead: it is final, must be acknowledged, and a
  // commit is answered with CheckpointAck.error = status.message(). `status` is FAILED_PRECONDITION
  // then.
  bool fenced = false;
  uint64_t job_id = 0;           // SubmitJob, CancelJob, ControlJob, UpdateJob: (the first) job
  uint32_t jobs = 1;             // likewise: how many it was, of an array
  bool already_existed = false;  // SubmitJob
  std::vector<StaleRank> stale;  // WorkerHello: ranks to kill
  // ApplyPlan: a part of it held no more, perhaps because of the time that passed alone.
  bool partly_void = false;
};

}  // namespace muster::controller
