// What people do with jobs that are there: hold, release, suspend, resume, requeue, cancel, update.
//
// Each is idempotent: a repeat changes nothing more.
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "controller/model/restart_budget.h"
#include "controller/policy/health/eligibility.h"
#include "controller/policy/limits/quota.h"
#include "controller/policy/limits/time_limits.h"
#include "controller/rules/jobs/job_driver.h"
#include "controller/rules/projects/hard_limits.h"
#include "controller/rules/rules.h"

namespace muster::controller {
namespace {

// The job alone, or all of its array. NOT_FOUND. INVALID_ARGUMENT: it is of no array.
absl::StatusOr<std::vector<uint64_t>> JobsMeant(const Snapshot& snapshot, uint64_t job_id,
                                                bool whole_array) {
  const Job* job = snapshot.FindJob(job_id);
  if (job == nullptr) {
    return absl::NotFoundError(absl::StrCat("job ", job_id, ": there is no such job"));
  }
  if (!whole_array) return std::vector<uint64_t>{job_id};
  const uint64_t array_id = job->array.array_id;
  if (array_id == 0) {
    return absl::InvalidArgumentError(absl::StrCat("job ", job_id, " is not of an array"));
  }
  std::vector<uint64_t> ids;
  for (uint64_t id = array_id;; ++id) {
    const Job* task = snapshot.FindJob(id);
    if (task == nullptr || task->array.array_id != array_id) return ids;
    ids.push_back(id);
  }
}

// Does it to each job that is meant. The jobs of an array that it does not fit are left as they
// are, unless it fits none.
template <typename Act>
EventResult ForJobs(Draft& draft, uint64_t job_id, bool whole_array, Act&& act) {
  EventResult result;
  const absl::StatusOr<std::vector<uint64_t>> ids = JobsMeant(draft.view(), job_id, whole_array);
  if (!ids.ok()) return Refuse(ids.status());
  if (ids->empty()) {
    return Refuse(absl::NotFoundError(
        absl::StrCat("job ", job_id, ": the first task of its array is not here any more")));
  }
  result.job_id = ids->front();
  result.jobs = 0;
  for (const uint64_t id : *ids) {
    absl::Status done = act(id);
    if (done.ok()) {
      ++result.jobs;
    } else if (result.status.ok()) {
      result.status = std::move(done);
    }
  }
  if (result.jobs > 0) result.status = absl::OkStatus();
  return result;
}

JobInput InputOf(ControlJob::Verb verb) {
  switch (verb) {
    case ControlJob::Verb::kHold:
      return JobInput::kHold;
    case ControlJob::Verb::kRelease:
      return JobInput::kRelease;
    case ControlJob::Verb::kSuspend:
      return JobInput::kSuspend;
    case ControlJob::Verb::kResume:
      return JobInput::kResume;
    case ControlJob::Verb::kRequeue:
      return JobInput::kRequeue;
  }
  return JobInput::kHold;
}

const char* DoneText(ControlJob::Verb verb) {
  switch (verb) {
    case ControlJob::Verb::kHold:
      return "held";
    case ControlJob::Verb::kRelease:
      return "released";
    case ControlJob::Verb::kSuspend:
      return "suspended";
    case ControlJob::Verb::kResume:
      return "resumed";
    case ControlJob::Verb::kRequeue:
      return "requeued";
  }
  return "";
}

// Whether the request is fulfilled already, where the state alone does not show it.
bool IsDone(const Job& job, const ControlJob& event) {
  const bool recovering = job.state == JobState::kRecovering;
  const bool queued = recovering || job.state == JobState::kPending;
  switch (event.verb) {
    case ControlJob::Verb::kHold:
      return queued && job.held;
    case ControlJob::Verb::kRelease:
      return queued && !job.held;
    case ControlJob::Verb::kSuspend:
      return recovering && job.suspending;
    case ControlJob::Verb::kResume:
      return recovering && !job.suspending;
    case ControlJob::Verb::kRequeue:
      return !event.request_id.empty() && job.requeue_id == event.request_id;
  }
  return false;
}

// A job that had ended stands in the queue as if it were new, but for its checkpoints and past.
void ForgetItsEnd(Job& job, absl::Duration now_at) {
  job.finished = absl::InfinitePast();
  job.failure_class = FailureClass::kNone;
  job.results.clear();
  job.progress.phase.clear();
  job.not_before_at = now_at;
}

// Jobs that join the queue again are checked as a submit is. Those of one event are of one array,
// and so of one project and owner.
class QueueGate {
 public:
  explicit QueueGate(const Draft& draft) : draft_(draft) {}

  absl::Status MayJoin(const Job& job) {
    const std::string& name = job.settings->project;
    if (IsTerminal(job.state)) {
      MUSTER_RETURN_IF_ERROR(MayAddProject(draft_, name));
      MUSTER_RETURN_IF_ERROR(MayAddJobs(draft_, 1));
    }
    const QuotaHolder holder{
        .project = draft_.view().FindProject(name), .project_name = name, .user = job.owner};
    if (holder.project == nullptr) return absl::OkStatus();
    const JobNeeds& needs = job.settings->needs;
    MUSTER_RETURN_IF_ERROR(FitsQuota(holder, needs.min_ranks * needs.slots_per_rank));
    if (!use_.has_value()) use_ = draft_.UseOf(name);
    MUSTER_RETURN_IF_ERROR(MayQueue(holder, *use_, 1));
    ++use_->all.queued;
    ++use_->users[job.owner].queued;
    return absl::OkStatus();
  }

 private:
  const Draft& draft_;
  std::optional<ProjectUse> use_;  // with those that have joined since
};

absl::Status Control(Draft& draft, uint64_t id, const ControlJob& event, QueueGate& gate,
                     const RuleContext& context) {
  const Job& job = *draft.view().FindJob(id);
  if (IsDone(job, event)) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(MayChange(job));
  const JobInput input = InputOf(event.verb);
  const JobRule& rule = LookUp(job.state, input);
  const bool joins = rule.handling == Handling::kMove && rule.next == JobState::kPending;
  if (joins && job.state != JobState::kPending) MUSTER_RETURN_IF_ERROR(gate.MayJoin(job));
  const bool ended = IsTerminal(job.state);
  const bool nothing_to_do = LookUp(job.state, input).handling == Handling::kIgnore;
  const std::string message = absl::StrCat(DoneText(event.verb), " by ", event.actor);
  MUSTER_RETURN_IF_ERROR(
      DriveJob(draft, id, {.input = input, .actor = event.actor, .message = message}, context));
  if (event.verb == ControlJob::Verb::kRequeue) draft.EditJob(id).requeue_id = event.request_id;
  if (nothing_to_do) return absl::OkStatus();

  Job& edited = draft.EditJob(id);
  switch (event.verb) {
    case ControlJob::Verb::kHold:
    case ControlJob::Verb::kRelease:
      edited.held = event.verb == ControlJob::Verb::kHold;
      // What was found of its data before counts no more: somebody may have mended them meanwhile.
      if (!edited.held) edited.not_before_at = std::max(edited.not_before_at, context.now_at);
      return absl::OkStatus();
    case ControlJob::Verb::kSuspend:
      edited.suspending = edited.state == JobState::kRecovering;
      break;
    case ControlJob::Verb::kResume:
      edited.suspending = false;
      edited.not_before_at = context.now_at;
      return absl::OkStatus();
    case ControlJob::Verb::kRequeue:
      edited.requeued_after = edited.attempt;
      RefillBudgets(edited);
      if (ended) ForgetItsEnd(edited, context.now_at);
      break;
  }
  if (edited.state == JobState::kRecovering) {
    NoteFailure(draft, id, {.failure_class = FailureClass::kPreempted, .cause = message});
    EndAttemptIfRanksGone(draft, id, context);
  }
  return absl::OkStatus();
}

std::string PoolNames(const std::vector<JobNeeds::Pool>& pools) {
  return absl::StrJoin(pools, ",", [](std::string* out, const JobNeeds::Pool& pool) {
    absl::StrAppend(out, pool.name);
    if (pool.after > absl::ZeroDuration()) {
      absl::StrAppend(out, " after ", HumanDuration(pool.after));
    }
  });
}

std::string LimitText(absl::Duration limit) {
  return limit == absl::InfiniteDuration() ? "none" : HumanDuration(limit);
}

std::string LimitText(absl::Time limit) {
  const bool none = limit == absl::InfiniteFuture() || limit == absl::InfinitePast();
  return none ? "none" : Rfc3339Text(limit);
}

// The settings with what the event gives, and a text for each change; none: nothing changes.
struct Changed {
  JobSettings settings;
  std::vector<std::string> words;
};

Changed ChangedBy(const UpdateJob& event, const JobSettings& settings) {
  Changed changed{.settings = settings, .words = {}};
  JobSettings& next = changed.settings;
  const auto tell = [&changed](const char* what, const auto& before, const auto& after) {
    changed.words.push_back(absl::StrCat(what, " ", before, " -> ", after));
  };
  if (event.priority.has_value() && *event.priority != settings.priority) {
    next.priority = *event.priority;
    tell("priority", settings.priority, next.priority);
  }
  if (!event.pools.empty() && event.pools != settings.needs.pools) {
    next.needs.pools = event.pools;
    tell("pool", PoolNames(settings.needs.pools), PoolNames(next.needs.pools));
  }
  const SchedulingSettings& before = settings.scheduling;
  SchedulingSettings& after = next.scheduling;
  if (event.max_run_time.has_value() && *event.max_run_time != before.max_run_time) {
    after.max_run_time = *event.max_run_time;
    tell("max_run_time", LimitText(before.max_run_time), LimitText(after.max_run_time));
  }
  if (event.deadline.has_value() && *event.deadline != before.deadline) {
    after.deadline = *event.deadline;
    tell("deadline", LimitText(before.deadline), LimitText(after.deadline));
  }
  if (event.begin.has_value() && *event.begin != before.begin) {
    after.begin = *event.begin;
    tell("begin", LimitText(before.begin), LimitText(after.begin));
  }
  return changed;
}

// The new settings by the old ones: jobs that shared theirs go on sharing them.
using SharedSettings = std::map<const JobSettings*, std::shared_ptr<const JobSettings>>;

absl::Status Update(Draft& draft, uint64_t id, const UpdateJob& event, const RuleContext& context,
                    SharedSettings& shared) {
  const Job& job = *draft.view().FindJob(id);
  if (IsTerminal(job.state) || job.state == JobState::kStopping) {
    return absl::FailedPreconditionError(absl::StrCat("job ", id, " is ", JobStateName(job.state),
                                                      ": it will not run any more as it is"));
  }
  const std::shared_ptr<const JobSettings> before = job.settings;
  Changed changed = ChangedBy(event, *before);
  if (changed.words.empty()) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(MayChange(job));
  MUSTER_RETURN_IF_ERROR(CanEverFit(draft.view(), changed.settings.needs, context.now_at));
  if (event.deadline.has_value() || event.begin.has_value()) {
    SchedulingSettings times = changed.settings.scheduling;
    if (job.state != JobState::kPending) times.begin = absl::InfinitePast();  // it has begun
    MUSTER_RETURN_IF_ERROR(CanKeepTimes(times, context.now));
  }
  std::shared_ptr<const JobSettings>& settings = shared[before.get()];
  if (settings == nullptr) {
    settings = std::make_shared<const JobSettings>(std::move(changed.settings));
  }
  Job& edited = draft.EditJob(id);
  edited.settings = settings;
  draft.AddEvent({.sequence = 0,
                  .job_id = id,
                  .time = context.now,
                  .from = edited.state,
                  .to = edited.state,
                  .reason = Reason::kUpdated,
                  .actor = event.actor,
                  .message = absl::StrJoin(changed.words, ", "),
                  .attempt = edited.attempt});
  return absl::OkStatus();
}

}  // namespace

EventResult OnCancel(Draft& draft, const CancelJob& event, const RuleContext& context) {
  return ForJobs(draft, event.job_id, event.whole_array, [&](uint64_t id) {
    absl::Status driven = DriveJob(draft, id,
                                   {.input = JobInput::kCancel,
                                    .actor = event.actor,
                                    .message = absl::StrCat("cancelled by ", event.actor)},
                                   context);
    if (driven.ok()) EndAttemptIfRanksGone(draft, id, context);
    return driven;
  });
}

EventResult OnControl(Draft& draft, const ControlJob& event, const RuleContext& context) {
  QueueGate gate(draft);
  return ForJobs(draft, event.job_id, event.whole_array,
                 [&](uint64_t id) { return Control(draft, id, event, gate, context); });
}

EventResult OnUpdate(Draft& draft, const UpdateJob& event, const RuleContext& context) {
  SharedSettings shared;
  return ForJobs(draft, event.job_id, event.whole_array,
                 [&](uint64_t id) { return Update(draft, id, event, context, shared); });
}

}  // namespace muster::controller
