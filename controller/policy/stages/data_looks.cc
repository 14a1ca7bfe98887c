#include "controller/policy/stages/data_looks.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/policy/health/data_sight.h"
#include "controller/policy/health/eligibility.h"
#include "controller/policy/queue/admission.h"
#include "controller/policy/stages/wait_reason.h"

namespace muster::controller {
namespace {

// Jobs of one round for which all workers are gone through, and the delay before the next one goes
// on with further ones.
constexpr uint32_t kMaxFurtherLooks = 16;
constexpr absl::Duration kNextFurtherLooks = absl::Seconds(1);

void AskFor(Round& round, const Worker& worker, const Job& job, bool overdue) {
  if (round.decision.plan.looks.size() >= kMaxDataLooks) return;
  if (!round.looks.insert({worker.id, job.settings->needs.data}).second) return;
  round.decision.plan.looks.push_back(
      {.worker = worker.name, .stream = worker.pulse.stream, .job_id = job.id, .overdue = overdue});
}

absl::Duration AdmittedAt(const Round& round, const Job& job) {
  return AdmittedSince(round.snapshot, job, round.context.now, round.context.wall);
}

void RunAgainAt(Round& round, absl::Duration at) { round.RunAgainIn(at - round.context.now); }

// Ends the jobs of the candidate's group that never ran; one that ran before waits for its data.
void EndWithoutData(Round& round, const Candidate& candidate, const UnusableData& data) {
  std::vector<uint64_t>& ended = round.decision.plan.without_data;
  for (const uint64_t id : candidate.group.jobs) {
    if (ended.size() >= kMaxDataLooks) return;
    const Job& job = *round.snapshot.FindJob(id);
    if (EndsFor(data, job, AdmittedAt(round, job))) ended.push_back(id);
  }
}

bool IsExempt(const Round& round, const Job& job) {
  return job.settings->needs.data.empty() || !round.settings.awaits_data_looks;
}

// Whether this round goes through all workers for the job: it does so for a few.
bool TakesTurn(Round& round, uint64_t job_id) {
  if (round.further_looks.done.count(job_id) != 0) return false;
  if (++round.further_looks_now > kMaxFurtherLooks) return false;
  round.further_looks.done.insert(job_id);
  return true;
}

// When the newest of the candidate's group, by its number, or the candidate itself was admitted.
absl::Duration NewestOf(const Round& round, const Candidate& candidate) {
  absl::Duration newest = AdmittedAt(round, candidate.job);
  const Job& last = *round.snapshot.FindJob(*candidate.group.jobs.rbegin());
  if (last.not_before_at <= round.context.now) newest = std::max(newest, AdmittedAt(round, last));
  return newest;
}

// Asks the worker, which found a fault or other data than most, if it is time. A fault that was
// looked for before `newest` is looked at anew at once.
void LookAgain(Round& round, const DataSight& sight, const Worker& worker, const Job& job,
               absl::Duration newest) {
  const DataView& view = *DataViewOf(worker, job.settings->needs.data);
  const Worker* other = view.failed() ? nullptr : sight.OldestOfMost(worker);
  if (other != nullptr) AskFor(round, *other, job, /*overdue=*/false);
  if (!view.answered) return;
  const absl::Duration at = view.asked_at < newest ? round.context.now : NextDataLook(view);
  if (at <= round.context.now) return AskFor(round, worker, job, /*overdue=*/false);
  round.further_looks.due_at = std::min(round.further_looks.due_at, at);
  RunAgainAt(round, at);
}

bool IsAtFault(DataStanding standing) {
  return standing == DataStanding::kFaulty || standing == DataStanding::kDifferent;
}

}  // namespace

bool AwaitsDataLooks(Round& round, const Job& job, const std::vector<Grant>& grants) {
  if (IsExempt(round, job)) return false;
  const std::string& data = job.settings->needs.data;
  const Worker* first = nullptr;
  std::set<uint64_t> awaited;
  for (const Grant& grant : grants) {
    // The index holds none that DataSight rules out: what others found has been compared already.
    const Worker& worker = *round.index.node(grant.worker_id).worker;
    const DataStanding standing = StandingByItself(worker, data, round.context.now);
    if (standing == DataStanding::kSound) continue;
    if (first == nullptr) first = &worker;
    awaited.insert(worker.id);
    if (standing == DataStanding::kAsked) {
      RunAgainAt(round, DataViewOf(worker, data)->asked_at + kDataPatience);
      continue;
    }
    AskFor(round, worker, job, /*overdue=*/standing == DataStanding::kOverdue);
  }
  if (first == nullptr) return false;
  SetWaitReason(round, job,
                absl::StrCat("its data are being looked at by worker ", first->name,
                             AndOthers(awaited.size() - 1)));
  return true;
}

void LookFurther(Round& round, const Candidate& candidate) {
  if (IsExempt(round, candidate.job) || candidate.reserve_only) return;
  if (!candidate.demand().IsDataRuledOut(round.index)) return;
  if (!TakesTurn(round, candidate.job.id)) return;
  const JobNeeds& needs = candidate.needs();
  const DataSight sight(needs.data, round.snapshot);
  const absl::Duration newest = NewestOf(round, candidate);
  bool any_sound = false;
  bool any_fault = false;
  std::vector<const Worker*> unasked;
  round.snapshot.workers.ForEach([&](const Worker& worker) {
    if (!TakesWork(worker, needs) || IdleRanks(worker, needs) == 0) return;
    const DataStanding standing = sight.Of(worker, round.context.now);
    any_sound |= standing == DataStanding::kSound;
    const bool may_ask = standing == DataStanding::kUnknown && !sight.RulesOut(worker);
    if (may_ask) unasked.push_back(&worker);
    if (!IsAtFault(standing)) return;
    any_fault = true;
    LookAgain(round, sight, worker, candidate.job, newest);
  });
  if (!any_fault || any_sound) return;
  for (const Worker* worker : unasked) AskFor(round, *worker, candidate.job, /*overdue=*/false);
  const UnusableData data = FindUnusableData(round.snapshot, needs, round.context.now);
  if (!data.why.empty()) EndWithoutData(round, candidate, data);
}

void LookFurther(Round& round, const Job& running, Demand& demand) {
  if (IsExempt(round, running) || !demand.IsDataRuledOut(round.index)) return;
  if (!TakesTurn(round, running.id)) return;
  const DataSight sight(demand.needs().data, round.snapshot);
  round.snapshot.workers.ForEach([&](const Worker& worker) {
    if (!TakesWork(worker, demand.needs())) return;
    if (demand.RanksOn(round.index.node(worker.id)) == 0) return;
    if (!IsAtFault(sight.Of(worker, round.context.now))) return;
    LookAgain(round, sight, worker, running, /*newest=*/-absl::InfiniteDuration());
  });
}

void ContinueLooks(Round& round) {
  FurtherLooks& looks = round.further_looks;
  const bool goes_on = round.further_looks_now > kMaxFurtherLooks;
  if (goes_on && looks.done.size() < round.settings.max_considered) {
    round.RunAgainIn(kNextFurtherLooks);
    return;
  }
  // The rounds before this one have not asked for that.
  const absl::Duration wait = looks.due_at - round.context.now;
  if (!looks.done.empty()) round.RunAgainIn(std::max(wait, kNextFurtherLooks));
  looks = {};
}

}  // namespace muster::controller
