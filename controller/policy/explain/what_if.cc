#include "controller/policy/explain/what_if.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "controller/model/ledger_rules.h"
#include "controller/policy/limits/fair_share.h"

namespace muster::controller {
namespace {

// The slots of one rank; what the worker notes of another job there stays.
void FreeSlots(Draft& draft, uint64_t job_id, uint32_t attempt, const Rank& rank) {
  const Worker* worker = draft.view().FindWorker(rank.worker);
  if (worker == nullptr) return;
  std::erase_if(draft.EditPulse(worker->id).holders, [&](const auto& holder) {
    return holder.second.job_id == job_id && holder.second.attempt == attempt;
  });
}

// How long a job has waited follows from its events.
void Note(Draft& draft, uint64_t job_id, JobState next, Reason reason,
          const ScheduleContext& context) {
  const Job& job = *draft.view().FindJob(job_id);
  if (job.state == next) return;
  draft.AddEvent({.sequence = 0,
                  .job_id = job_id,
                  .time = context.wall,
                  .from = job.state,
                  .to = next,
                  .reason = reason,
                  .actor = "",
                  .message = "",
                  .attempt = job.attempt,
                  .at = draft.view().LedgerTime(context.now)});
}

void Charge(Draft& draft, const Job& job, const ScheduleContext& context) {
  uint32_t slots = 0;
  for (const Rank& rank : job.current->ranks) slots += rank.slots.size();
  Project& project = draft.EditProject(job.settings->project);
  project.used =
      controller::Charge(project.used, slots, HeldFrom(*job.current),
                         draft.view().LedgerTime(context.now), context.settings.use_half_life);
}

}  // namespace

void EndAttempt(Draft& draft, uint64_t job_id, JobState next, const ScheduleContext& context) {
  const JobState now = draft.view().FindJob(job_id)->state;
  Note(draft, job_id, next,
       now == JobState::kSuspended ? Reason::kResumed : Reason::kAttemptCleared, context);
  Job& job = draft.EditJob(job_id);
  job.state = next;
  if (IsTerminal(next)) job.finished = context.wall;
  if (next == JobState::kPending) job.not_before_at = context.now;
  if (!job.has_live_attempt()) return;
  Charge(draft, job, context);
  Attempt& attempt = draft.EditAttempt(job_id);
  attempt.ended = context.wall;
  attempt.held_until = draft.view().LedgerTime(context.now);
  for (Rank& rank : attempt.ranks) {
    if (!rank.holds_slots) continue;
    rank.holds_slots = false;
    rank.state = RankState::kExited;
    FreeSlots(draft, job_id, attempt.number, rank);
  }
}

void StartGang(Draft& draft, const PlaceGang& gang, const ScheduleContext& context) {
  const JobNeeds needs = draft.view().FindJob(gang.job_id)->settings->needs;
  Attempt attempt;
  attempt.number = gang.attempt;
  attempt.started = context.wall;
  for (const RankPlacement& placement : gang.ranks) {
    Rank rank;
    rank.rank = static_cast<uint32_t>(attempt.ranks.size());
    rank.worker = placement.worker;
    rank.slots = placement.slots;
    rank.local_rank = placement.local_rank;
    rank.state = RankState::kRunning;
    WorkerPulse& pulse = draft.EditPulse(draft.view().FindWorker(rank.worker)->id);
    HoldSlots(pulse, needs, gang.job_id, gang.attempt, rank);
    attempt.ranks.push_back(std::move(rank));
  }
  Note(draft, gang.job_id, JobState::kRunning, Reason::kPlaced, context);
  draft.AddAttempt(gang.job_id, std::move(attempt));
  draft.EditAttempt(gang.job_id).held_from = draft.view().LedgerTime(context.now);
  draft.EditJob(gang.job_id).state = JobState::kRunning;
}

void StopAtOnce(Draft& draft, const StopGang& stop, const ScheduleContext& context) {
  Attempt& attempt = draft.EditAttempt(stop.job_id);
  attempt.preempted_by = stop.for_job;
  attempt.failure_class = FailureClass::kPreempted;
  attempt.reason = stop.why == StopGang::Why::kPreempt ? Reason::kPreemptedByJob : Reason::kResized;
  EndAttempt(draft, stop.job_id, JobState::kPending, context);
}

void LiftAdmission(Draft& draft, uint64_t job_id, const ScheduleContext& context) {
  EndAttempt(draft, job_id, JobState::kPending, context);
  Job& job = draft.EditJob(job_id);
  job.held = false;
  job.suspending = false;
  job.not_before_at = context.now;
  auto settings = std::make_shared<JobSettings>(*job.settings);
  settings->scheduling.after.clear();
  settings->scheduling.begin = absl::InfinitePast();
  job.settings = std::move(settings);
  if (job.current != nullptr) draft.EditAttempt(job_id).preempted_by = 0;
}

void LiftArray(Draft& draft, uint64_t job_id) { draft.EditJob(job_id).array.at_a_time = 0; }

void LiftQuotas(Draft& draft, uint64_t job_id) {
  Project& project = draft.EditProject(draft.view().FindJob(job_id)->settings->project);
  project.quota.slots.reset();
  project.each_user.slots.reset();
  for (auto& [name, quota] : project.users) quota.slots.reset();
}

}  // namespace muster::controller
