// Reports of agents on ranks, and findings of the liveness loop on gangs.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "controller/model/ledger_rules.h"
#include "controller/policy/health/liveness_rules.h"
#include "controller/policy/health/restart_rules.h"
#include "controller/rules/jobs/job_driver.h"
#include "controller/rules/jobs/progress_rules.h"
#include "controller/rules/rules.h"
#include "controller/rules/workers/report_gate.h"
#include "controller/rules/workers/worker_quarantine_rules.h"

namespace muster::controller {
namespace {

std::string Describe(const RankReport& report) {
  if (!report.message.empty()) return report.message;
  if (report.signal != 0) return absl::StrCat("killed by signal ", report.signal);
  return absl::StrCat("exit code ", report.exit_code, " without a message");
}

FailureClass ClassOf(const RankReport& report) {
  if (report.stopped) return FailureClass::kPreempted;
  if (report.failure_class != FailureClass::kNone) return report.failure_class;
  return report.signal != 0 ? FailureClass::kRankKilled : FailureClass::kApplication;
}

void NoteSteps(Draft& draft, const RankReport& report) {
  Rank& rank = draft.EditRank(report.fence.job_id, report.rank);
  rank.last_step = std::max(rank.last_step, report.last_step);
  Attempt& attempt = draft.EditAttempt(report.fence.job_id);
  attempt.last_step = std::max(attempt.last_step, report.last_step);
  if (report.rank != 0) return;
  Job& job = draft.EditJob(report.fence.job_id);
  NoteStep(job, report.last_step);
  if (report.last_step > 0 && report.last_step >= attempt.first_step) {
    job.progress.step = report.last_step;
  }
  for (const auto& [name, value] : report.results) {
    KeepShown(job.results, name, value);
    KeepShown(job.progress.latest, name, value);
  }
}

// The rank's process is gone. Returns the input that follows for the job.
JobInput NoteExit(Draft& draft, const RankReport& report, const RuleContext& context) {
  const uint64_t job_id = report.fence.job_id;
  Rank& rank = draft.EditRank(job_id, report.rank);
  rank.state = RankState::kExited;
  rank.exit_code = report.exit_code;
  rank.signal = report.signal;
  rank.succeeded = report.succeeded;
  rank.log_bytes = report.log_bytes;
  ReleaseSlot(draft, job_id, report.fence.attempt, report.rank);
  if (report.succeeded) {
    const std::vector<Rank>& ranks = draft.view().FindJob(job_id)->current->ranks;
    const bool all = std::all_of(ranks.begin(), ranks.end(), [](const Rank& r) {
      return r.state == RankState::kExited && r.succeeded;
    });
    return all ? JobInput::kGangSucceeded : JobInput::kRankSucceeded;
  }
  const std::string cause =
      absl::StrCat("rank ", report.rank, " on ", rank.worker, ": ", Describe(report));
  const bool is_cause = NoteFailure(draft, job_id,
                                    {.failure_class = ClassOf(report),
                                     .cause = cause,
                                     .missing = report.missing,
                                     .rank = static_cast<int32_t>(report.rank)});
  // A spec that the trainer cannot use is no worker's fault.
  if (is_cause && report.exit_code != kUsageExitCode) {
    RecordWorkerFailure(draft, report.worker, job_id, context);
  }
  return report.stopped ? JobInput::kRankStopped : JobInput::kRankFailed;
}

// SIGKILL does not end the rank's process: its gang goes on without it, its slots stay its own.
JobInput NoteUnkillable(Draft& draft, const RankReport& report, const RuleContext& context) {
  const uint64_t job_id = report.fence.job_id;
  draft.EditRank(job_id, report.rank).state = RankState::kUnkillable;
  // The others have waited for it since the last step.
  NoteStandstill(draft.EditJob(job_id));
  const bool is_cause = NoteFailure(
      draft, job_id,
      {.failure_class = ClassOf(report),
       .cause = absl::StrCat("rank ", report.rank, " on ", report.worker, ": ", Describe(report)),
       .rank = static_cast<int32_t>(report.rank)});
  if (is_cause) RecordWorkerFailure(draft, report.worker, job_id, context);
  return JobInput::kRankFailed;
}

// The same of a gang that is over already: it is not ordered to stop again.
void MarkUnkillable(Draft& draft, const RankReport& report) {
  const Job* job = draft.view().FindJob(report.fence.job_id);
  const Attempt* attempt = job == nullptr ? nullptr : FindAttempt(*job, report.fence.attempt);
  if (attempt == nullptr || report.rank >= attempt->ranks.size()) return;
  const Rank& rank = attempt->ranks[report.rank];
  const bool its_own = rank.worker == report.worker && rank.incarnation == report.incarnation;
  if (!its_own || rank.state != RankState::kLost || !rank.holds_slots) return;
  const bool current = job->current->number == report.fence.attempt;
  Rank& edited = current ? draft.EditRank(job->id, report.rank)
                         : draft.EditPastRank(job->id, report.fence.attempt, report.rank);
  edited.state = RankState::kUnkillable;
}

std::string MessageOf(const RankReport& report, JobInput input) {
  switch (input) {
    case JobInput::kRankProgressed:
      return absl::StrCat("rank ", report.rank,
                          report.last_step > 0 ? " made its first step" : " runs");
    case JobInput::kGangSucceeded:
      return "all ranks succeeded";
    case JobInput::kRankStopped:
      return absl::StrCat("rank ", report.rank, " on ", report.worker,
                          " left as asked: ", Describe(report));
    case JobInput::kRankFailed:
      return absl::StrCat("rank ", report.rank, " on ", report.worker, " failed (",
                          FailureClassName(ClassOf(report)), "): ", Describe(report));
    default:
      return "";
  }
}

EventResult ApplyReport(Draft& draft, const RankReport& report, const RuleContext& context) {
  const uint64_t job_id = report.fence.job_id;
  JobInput input = JobInput::kRankStarted;
  NoteSteps(draft, report);
  switch (report.kind) {
    case RankReport::Kind::kStarted: {
      Rank& rank = draft.EditRank(job_id, report.rank);
      if (rank.state == RankState::kAssigned) rank.state = RankState::kStarted;
      rank.pid = report.pid;
      break;
    }
    case RankReport::Kind::kRunning: {
      Rank& rank = draft.EditRank(job_id, report.rank);
      rank.state = RankState::kRunning;
      rank.pid = report.pid;  // most commands report no STARTED before
      input = JobInput::kRankProgressed;
      break;
    }
    case RankReport::Kind::kExited:
      input = NoteExit(draft, report, context);
      break;
    case RankReport::Kind::kUnkillable:
      input = NoteUnkillable(draft, report, context);
      break;
  }
  EventResult result;
  result.status = DriveJob(draft, job_id,
                           {.input = input,
                            .actor = absl::StrCat("worker:", report.worker),
                            .message = MessageOf(report, input)},
                           context);
  if (input == JobInput::kGangSucceeded && result.status.ok()) {
    EvaluateAfterProgress(draft, job_id, context);
  }
  EndAttemptIfRanksGone(draft, job_id, context);
  return result;
}

// The workers that never began their ranks, where others of the gang did.
std::set<std::string> WithoutProcess(const Attempt& attempt) {
  std::set<std::string> without;
  std::set<std::string> with;
  for (const Rank& rank : attempt.ranks) {
    (rank.state == RankState::kAssigned ? without : with).insert(rank.worker);
  }
  return with.empty() ? with : without;
}

const Job* FindLiveJob(const Snapshot& snapshot, uint64_t job_id, uint32_t attempt) {
  const Job* job = snapshot.FindJob(job_id);
  const bool live = job != nullptr && job->has_live_attempt() && job->current->number == attempt;
  return live ? job : nullptr;
}

}  // namespace

EventResult OnRankReport(Draft& draft, const RankReport& event, const RuleContext& context) {
  const absl::StatusOr<Gate> gate =
      PassGate(draft, event.worker, event.incarnation, event.event_seq);
  if (!gate.ok()) return Refuse(gate.status());
  if (*gate == Gate::kDuplicate) return {};
  if (FindLiveRank(draft.view(), event.fence, event.rank, event.worker, event.incarnation) ==
      nullptr) {
    const Worker& sender = *draft.view().FindWorker(event.worker);
    const bool gone = event.kind == RankReport::Kind::kExited;
    // The dead process of a fenced gang: all that is left of it is its slot.
    if (gone) ReleaseSlot(draft, event.fence.job_id, event.fence.attempt, event.rank);
    if (event.kind == RankReport::Kind::kUnkillable) MarkUnkillable(draft, event);
    RankStatus status;
    status.fence = event.fence;
    status.rank = event.rank;
    const bool alive = !gone && IsFencedOff(draft.view(), sender, status);
    return RefuseStale(draft, sender, event.fence, alive);
  }
  return ApplyReport(draft, event, context);
}

EventResult OnStartTimedOut(Draft& draft, const StartTimedOut& event, const RuleContext& context) {
  const Job* job = FindLiveJob(draft.view(), event.job_id, event.attempt);
  if (job == nullptr || job->state != JobState::kStarting) return {};
  if (StartGotOnAt(draft.view(), *job->current) > event.got_on_at) return {};
  const std::string cause =
      absl::StrCat("no first step, and no sign of progress for ", HumanDuration(event.waited));
  if (NoteFailure(draft, event.job_id,
                  {.failure_class = FailureClass::kStartFailed, .cause = cause})) {
    for (const std::string& worker : WithoutProcess(*draft.view().FindJob(event.job_id)->current)) {
      RecordWorkerFailure(draft, worker, event.job_id, context);
    }
  }
  EventResult result;
  result.status =
      DriveJob(draft, event.job_id,
               {.input = JobInput::kStartTimedOut, .actor = "liveness", .message = cause}, context);
  EndAttemptIfRanksGone(draft, event.job_id, context);
  return result;
}

EventResult OnHung(Draft& draft, const RankHung& event, const RuleContext& context) {
  const Job* job = FindLiveJob(draft.view(), event.job_id, event.attempt);
  if (job == nullptr || event.rank >= job->current->ranks.size()) return {};
  if (job->state != JobState::kRunning) return {};
  const std::optional<absl::Duration> progress_at =
      LastProgressAt(draft.view(), *job->current, job->current->ranks[event.rank]);
  if (!progress_at.has_value() || *progress_at > event.progress_at) return {};
  const std::string cause =
      absl::StrCat("rank ", event.rank, " on ", job->current->ranks[event.rank].worker,
                   " made no progress for ", HumanDuration(event.silent_for));
  NoteStandstill(draft.EditJob(event.job_id));
  const std::string worker = job->current->ranks[event.rank].worker;
  if (NoteFailure(draft, event.job_id,
                  {.failure_class = FailureClass::kHang,
                   .cause = cause,
                   .rank = static_cast<int32_t>(event.rank)})) {
    RecordWorkerFailure(draft, worker, event.job_id, context);
  }
  EventResult result;
  result.status =
      DriveJob(draft, event.job_id,
               {.input = JobInput::kHung, .actor = "liveness", .message = cause}, context);
  EndAttemptIfRanksGone(draft, event.job_id, context);
  return result;
}

}  // namespace muster::controller
