// What the controller knows of a job: plain data, shared by the state machine, the policies, the
// store and the API.
//
// Enum values are the numbers of muster/v1/common.proto, so that the API converts by a cast; the
// core itself knows no protocol. Times are wall clock and for display; durations named `*_at` count
// since boot and decide timeouts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "controller/model/types/ledger_types.h"

namespace muster::controller {

enum class JobState : uint8_t {
  kPending = 1,
  kStarting = 2,
  kRunning = 3,
  kRecovering = 4,
  kStopping = 5,
  kSuspended = 6,
  kSucceeded = 7,
  kFailed = 8,
  kCancelled = 9,
};
inline constexpr int kJobStateCount = 9;

enum class Reason : uint8_t {
  kNone = 0,
  kSubmitted = 1,
  kWaitingForSlots = 2,
  kPlaced = 3,
  kAllRanksStarted = 4,
  kFirstProgress = 5,
  kAllRanksSucceeded = 6,
  kRankFailed = 7,
  kWorkerGone = 8,
  kWorkerDraining = 9,
  kAttemptCleared = 10,
  kRestartBudgetSpent = 11,
  kNotRetryable = 12,
  kCancelRequested = 13,
  kCancelDone = 14,
  kStartTimedOut = 15,
  kNoProgress = 16,
  kPlacementRevoked = 17,
  kHeld = 18,
  kReleased = 19,
  kSuspendRequested = 20,
  kSuspendDone = 21,
  kResumed = 22,
  kRequeued = 23,
  kPreemptedByJob = 24,
  kResized = 25,
  kTimeLimitReached = 26,
  kDependencyFailed = 27,
  kDeadlinePassed = 28,
  kUpdated = 29,
};

enum class FailureClass : uint8_t {
  kNone = 0,
  kPreempted = 1,
  kWorkerLost = 2,
  kHang = 3,
  kOutOfMemory = 4,
  kNonFinite = 5,
  kDataError = 6,
  kCheckpointFailed = 7,
  kCorruption = 8,
  kApplication = 9,
  kStartFailed = 10,
  kRankKilled = 11,
  kPeerLost = 12,
  kTimeLimit = 13,
  kStorageUnavailable = 14,
};

// Of a failed start: whether what the command runs, or the folder that it runs in, was not there.
enum class Missing : uint8_t { kNothing = 0, kOnWorker = 1, kInUpload = 2 };  // RankEvent.Missing

enum class SlotKind : uint8_t { kCpu = 1, kGpu = 2 };

absl::string_view JobStateName(JobState state);         // "PENDING"
absl::string_view FailureClassName(FailureClass kind);  // "WORKER_LOST"; "" for kNone
absl::string_view SlotKindName(SlotKind kind);          // "CPU"

constexpr bool IsTerminal(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

// Names one gang. `term` is that of the controller which placed it; it takes no part in
// comparisons, since an attempt outlives a controller.
struct Fence {
  uint64_t job_id = 0;
  uint32_t attempt = 0;
  uint32_t generation = 1;
  uint64_t term = 0;
};

// Which slots a job wants. Filled from the resolved spec; no defaults here.
struct JobNeeds {
  uint32_t min_ranks = 1;
  uint32_t max_ranks = 1;
  SlotKind slot_kind = SlotKind::kCpu;
  uint32_t slots_per_rank = 1;   // all on one worker
  std::string gpu_type;          // part of a GPU's model; empty: any
  uint32_t cpus_per_rank = 0;    // 0: not counted
  uint64_t memory_per_rank = 0;  // bytes; 0: not counted
  struct Pool {
    std::string name;
    absl::Duration after;  // counts once the job has waited so long
    bool operator==(const Pool&) const = default;
  };
  std::vector<Pool> pools;  // at least one, in order of preference; a gang is placed in one of them
  std::map<std::string, std::string> selector;
  std::vector<std::string> exclude;  // names of workers
  bool wait_for_capacity = false;
  bool commands = false;  // only workers that run commands
  // Of a command: only workers that can run it.
  enum class Image : uint8_t {
    kNone = 0,
    kReference = 1,  // by any container runtime
    kFile = 2,       // a .sif file, which apptainer alone runs
  };
  Image image = Image::kNone;
  // The checkpoint root that its workers must see (JobSettings::checkpoint_root); empty: none.
  std::string root;
  // Names the data that its workers must have looked at: the same for all jobs that read the same
  // data in the same way. Empty: they need not.
  std::string data;
};

// When a job may start and how long it may run.
struct SchedulingSettings {
  bool preemptible = true;
  absl::Duration max_run_time = absl::InfiniteDuration();  // over all attempts
  absl::Duration expected_run_time;                        // zero: not declared
  absl::Time deadline = absl::InfiniteFuture();
  absl::Time begin = absl::InfinitePast();
  enum class On : uint8_t { kSuccess = 0, kFailure = 1, kEnd = 2 };  // of the other job
  struct Dependency {
    uint64_t job_id = 0;
    On on = On::kSuccess;
    std::optional<uint32_t> task = {};  // that one of the array that job_id names; else all of it
    bool operator==(const Dependency&) const = default;
  };
  std::vector<Dependency> after;
  bool hold = false;  // held from the start
};

// One job of an array submit.
struct ArrayTask {
  uint64_t array_id = 0;   // the id of the array's first job; 0: not of an array
  uint32_t index = 0;      // its own number
  uint32_t at_a_time = 0;  // at most so many of the array hold slots; 0: no bound
};

struct RestartSettings {
  uint32_t max_restarts = 0;
  std::map<FailureClass, uint32_t> budgets;  // instead of max_restarts
  absl::Duration backoff;
  absl::Duration max_backoff;
  absl::Duration progress_timeout = absl::InfiniteDuration();
};

// What the core needs of the resolved spec. Changes only by an update, as a whole; spec stays
// what was submitted.
struct JobSettings {
  std::string name;
  std::string project;
  int32_t priority = 0;  // class and number together; higher goes first
  JobNeeds needs;
  SchedulingSettings scheduling;
  RestartSettings restart;
  uint32_t keep_last = 2;       // verified checkpoints to keep besides the best
  std::string checkpoint_root;  // the folder in which the job has its own
  // Checkpoints of another job that it begins from, in the order in which they are tried; settled
  // when it was submitted. Empty: from nothing.
  std::vector<uint64_t> resume_from;
  std::map<std::string, std::string> tags;  // for people to find it by
  std::string upload;  // SHA-256 of the uploaded folder that it runs in; empty: none
  std::string spec;    // the resolved spec, packed (common/spec/packed_spec.h); opaque to the core
  // The spec as the client sent it, packed alike, without the defaults; at most as large as a spec
  // may be. Empty: an older Muster took the job.
  std::string written_spec;
};

enum class RankState : uint8_t {
  kAssigned = 1,    // its assignment is committed
  kStarted = 2,     // its process exists
  kRunning = 3,     // it finished its first step or evaluation
  kExited = 4,      // its process is confirmed dead, or never came to be
  kLost = 5,        // its worker is gone; the process may still be dying there
  kUnkillable = 6,  // SIGKILL does not end it; its gang goes on without it
};
// Nothing more comes of the rank for its gang.
constexpr bool HasEnded(RankState state) {
  return state == RankState::kExited || state == RankState::kLost ||
         state == RankState::kUnkillable;
}
// Likewise, but its process may live: it keeps its slots until that is confirmed dead.
constexpr bool IsGivenUp(RankState state) {
  return state == RankState::kLost || state == RankState::kUnkillable;
}
absl::string_view RankStateName(RankState state);  // "assigned"

struct Rank {
  uint32_t rank = 0;
  std::string worker;
  std::string incarnation;      // of the worker's agent when it was placed
  std::vector<uint32_t> slots;  // ascending
  uint32_t local_rank = 0;
  RankState state = RankState::kAssigned;
  bool succeeded = false;
  bool holds_slots = true;  // until the process is confirmed dead
  int32_t exit_code = 0;
  int32_t signal = 0;
  uint32_t pid = 0;
  int64_t last_step = 0;
  // What it wrote to stdout and to stderr, once it has ended and where its agent could tell. In
  // memory only.
  std::optional<std::array<uint64_t, 2>> log_bytes;
  // When it held its slots, in ledger time; infinite ends: never, and still.
  absl::Time held_from = absl::InfinitePast();
  absl::Time held_until = absl::InfiniteFuture();
};

struct Attempt {
  uint64_t job_id = 0;
  uint32_t number = 0;
  uint32_t generation = 1;
  uint64_t term = 0;  // of the controller that placed it
  absl::Time started = absl::InfinitePast();
  absl::Time ended = absl::InfiniteFuture();  // while it lives
  // The same in ledger time, by which run times count. InfinitePast: not known (an older Muster).
  absl::Time held_from = absl::InfinitePast();
  absl::Time held_until = absl::InfiniteFuture();
  absl::Duration placed_at;  // since boot; the load time after a restart
  FailureClass failure_class = FailureClass::kNone;
  std::string cause;
  Missing missing = Missing::kNothing;
  int32_t failed_rank = -1;       // whose end or standstill is the cause; -1: none alone
  Reason reason = Reason::kNone;  // why it is being ended
  bool reached_running = false;
  bool save_requested = false;  // its ranks were asked to save and leave
  uint64_t preempted_by = 0;    // the job that gets its slots; 0: none
  // Slot-seconds of work that were in danger when its ranks were asked to save and leave, and that
  // were lost when they had left; -1: they were not asked, they have not left.
  int64_t stake_slot_seconds = -1;
  int64_t lost_slot_seconds = -1;
  int64_t first_step = 0;        // that it resumes from; 0: from nothing
  int64_t last_step = 0;         // the highest one that a rank reported
  std::vector<uint64_t> resume;  // ids of checkpoints to try, newest first
  std::vector<Rank> ranks;       // by rank number

  bool live() const { return ended == absl::InfiniteFuture(); }
};

// Metrics of a job that its row shows; those that come later are left out there (metrics.db has
// bounds of its own).
inline constexpr size_t kMaxShownMetrics = 256;

// Keeps the value unless that would be one name too many.
inline void KeepShown(std::map<std::string, double>& shown, const std::string& name, double value) {
  const auto it = shown.find(name);
  if (it != shown.end()) {
    it->second = value;
  } else if (shown.size() < kMaxShownMetrics) {
    shown.emplace(name, value);
  }
}

// How fast a live attempt gets on (model/pace_rules.h). In memory only: a restarted controller
// measures it anew.
struct JobPace {
  struct Mark {
    int64_t step = 0;
    absl::Time at = absl::InfinitePast();
  };
  uint32_t attempt = 0;                     // that it was measured of; 0: none
  Mark from;                                // where the span begins over which it is measured
  Mark middle;                              // where the next span will begin
  absl::Time end = absl::InfiniteFuture();  // of its last step, at this pace; infinite: unknown
};

// Where the job is, from its ranks' newest reports. Kept over the end of an attempt; saved with
// each transition and checkpoint, and every few seconds.
struct JobProgress {
  std::string phase;
  int64_t step = 0;
  int64_t total_steps = 0;
  double epoch = 0;
  double memory_bytes = 0;               // of the largest rank, now; 0: not reported
  double memory_peak_bytes = 0;          // of the largest rank, ever
  double best_validation_accuracy = -1;  // below 0: none yet
  // Newest value of each metric of rank 0: loss, lr, samples_per_second, validation_accuracy, ...
  std::map<std::string, double> latest;
  JobPace pace;
};

// One row of the event table: it never changes. It leaves with its job, and comes back with it.
struct JobEvent {
  uint64_t sequence = 0;  // gapless over all jobs, archived ones too, but for those forgotten
  uint64_t job_id = 0;
  absl::Time time;
  JobState from = JobState::kPending;  // equals `to` in a job's first event and in notes
  JobState to = JobState::kPending;
  Reason reason = Reason::kNone;
  std::string actor;  // user:NAME, worker:NAME, scheduler, liveness, controller
  std::string message;
  uint32_t attempt = 0;
  // `time` in ledger time; InfinitePast: not known (an older Muster).
  absl::Time at = absl::InfinitePast();
};

// A copy is cheap: what is large is shared and immutable.
struct Job {
  uint64_t id = 0;
  std::shared_ptr<const JobSettings> settings;
  std::string owner;
  std::string idempotency_key;
  JobState state = JobState::kPending;
  Reason reason = Reason::kSubmitted;
  FailureClass failure_class = FailureClass::kNone;  // of the last lost attempt
  bool held = false;                                 // not placed before it is released
  bool suspending = false;  // becomes SUSPENDED once its attempt is cleared
  std::string message;      // the reason in words, with names and numbers
  absl::Time submitted = absl::InfinitePast();
  absl::Time started = absl::InfinitePast();   // first time RUNNING; InfinitePast: never
  absl::Time finished = absl::InfinitePast();  // InfinitePast: not yet
  uint32_t attempt = 0;                        // number of the newest; 0: never placed
  uint32_t restarts = 0;                       // all of them
  uint32_t restarts_in_row = 0;              // charged to the budget since the job last got further
  std::map<FailureClass, uint32_t> charged;  // the same, by the failure that was the cause
  absl::Duration not_before_at;              // since boot; not placed earlier (back-off)
  std::string requeue_id;                    // of the last requeue, which is known again by it
  uint32_t requeued_after = 0;  // attempts up to this one do not count against max_run_time
  ArrayTask array;
  // Ends the name of its folder for checkpoints, which no job of another controller, nor another
  // job that gets its number, shares. Empty: an older Muster began the job.
  std::string folder_tag;
  std::shared_ptr<const Attempt>
      current;  // the newest attempt, live or ended; null before the first placement
  std::vector<std::shared_ptr<const Attempt>> past;  // earlier ones, oldest first
  std::vector<uint64_t> checkpoints;                 // ids, oldest first
  std::vector<std::shared_ptr<const JobEvent>> events;
  JobProgress progress;
  JobLedger ledger;
  // What the stored row says of its progress, and since when (ledger time).
  absl::Time saved_at = absl::InfinitePast();
  TimeLabel saved_phase = TimeLabel::kStart;
  int64_t saved_step = 0;
  std::map<std::string, double> results;  // e.g. test_accuracy; when it SUCCEEDED

  bool has_live_attempt() const { return current != nullptr && current->live(); }
  // The job's own folder for checkpoints.
  std::string checkpoint_folder() const {
    const std::string folder = settings->checkpoint_root + "/job-" + std::to_string(id);
    return folder_tag.empty() ? folder : folder + "-" + folder_tag;
  }
};

}  // namespace muster::controller
