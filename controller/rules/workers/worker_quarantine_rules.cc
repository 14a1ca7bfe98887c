#include "controller/rules/workers/worker_quarantine_rules.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "controller/model/ledger_rules.h"
#include "controller/policy/health/quarantine_rules.h"

namespace muster::controller {
namespace {

void QuarantineIfDue(Draft& draft, uint64_t worker_id, const RuleContext& context) {
  const Worker& worker = *draft.view().workers.Find(worker_id);
  const absl::Time now = LedgerNow(draft, context);
  const std::optional<Quarantine> quarantine =
      EvaluateWorker(draft.view(), worker, context.quarantine, now);
  if (!quarantine.has_value()) {
    const std::string exempt = WhyExempt(draft.view(), worker, context.quarantine, now);
    const bool stands = !exempt.empty() || IsExempt(worker);
    if (stands && exempt != worker.quarantine_reason) {
      draft.EditWorker(worker_id).quarantine_reason = exempt;
    }
    return;
  }
  Worker& edited = draft.EditWorker(worker_id);
  edited.quarantined_until = quarantine->until;
  edited.quarantines = quarantine->number;
  edited.quarantine_reason = quarantine->evidence;
}

bool HasRankOn(const Attempt& attempt, const std::string& worker) {
  return std::any_of(attempt.ranks.begin(), attempt.ranks.end(),
                     [&](const Rank& rank) { return rank.worker == worker; });
}

void AddFailure(Worker& worker, WorkerFailure failure) {
  const auto later = std::upper_bound(
      worker.failures.begin(), worker.failures.end(), failure.time,
      [](absl::Time time, const WorkerFailure& other) { return time < other.time; });
  worker.failures.insert(later, std::move(failure));
  if (worker.failures.size() > kMaxWorkerFailures) worker.failures.erase(worker.failures.begin());
}

// Earlier attempts that looked like an error of the program, on workers that the current one, which
// got on, is not on.
void RecordLateFailure(Draft& draft, uint64_t job_id, const RuleContext& context) {
  const Job& job = *draft.view().FindJob(job_id);
  for (const auto& attempt : job.past) {
    const absl::Time ended = HeldUntil(*attempt);
    const bool old = ended < LedgerNow(draft, context) - context.quarantine.window;
    const Rank* failed = FailedRank(*attempt);
    if (old || failed == nullptr || !CountsAgainstWorkerLater(*attempt)) continue;
    const std::string& name = failed->worker;
    const Worker* worker = draft.view().FindWorker(name);
    if (worker == nullptr || HasRankOn(*job.current, name)) continue;
    const bool recorded = std::any_of(
        worker->failures.begin(), worker->failures.end(), [&](const WorkerFailure& failure) {
          return failure.job_id == job_id && failure.attempt == attempt->number;
        });
    if (recorded) continue;
    AddFailure(draft.EditWorker(worker->id), {.time = ended,
                                              .job_id = job_id,
                                              .attempt = attempt->number,
                                              .failure_class = attempt->failure_class,
                                              .cause = attempt->cause});
    QuarantineIfDue(draft, worker->id, context);
  }
}

}  // namespace

void RecordWorkerFailure(Draft& draft, const std::string& worker, uint64_t job_id,
                         const RuleContext& context) {
  const Worker* known = draft.view().FindWorker(worker);
  const Attempt& attempt = *draft.view().FindJob(job_id)->current;
  if (known == nullptr || !MayBeTheWorkers(attempt)) return;
  AddFailure(draft.EditWorker(known->id), {.time = LedgerNow(draft, context),
                                           .job_id = job_id,
                                           .attempt = attempt.number,
                                           .failure_class = attempt.failure_class,
                                           .cause = attempt.cause});
  QuarantineIfDue(draft, known->id, context);
}

void EvaluateAfterProgress(Draft& draft, uint64_t job_id, const RuleContext& context) {
  RecordLateFailure(draft, job_id, context);
  std::set<std::string> workers;
  for (const auto& attempt : draft.view().FindJob(job_id)->past) {
    if (!MayBeTheWorkers(*attempt)) continue;
    for (const Rank& rank : attempt->ranks) workers.insert(rank.worker);
  }
  for (const std::string& name : workers) {
    const Worker* worker = draft.view().FindWorker(name);
    if (worker != nullptr && !worker->failures.empty()) QuarantineIfDue(draft, worker->id, context);
  }
}

void EndQuarantine(Draft& draft, uint64_t worker_id, const RuleContext& context) {
  const Worker& worker = *draft.view().workers.Find(worker_id);
  const absl::Time now = LedgerNow(draft, context);
  const bool clean = IncidentsAgainst(worker, absl::InfiniteDuration(), now) == 0;
  if (clean && !worker.quarantined()) return;
  Worker& edited = draft.EditWorker(worker_id);
  if (IsExempt(edited)) edited.quarantine_reason.clear();
  edited.quarantined_until = absl::InfinitePast();
  edited.quarantine_ended = now;
}

void EndQuarantineIfDue(Draft& draft, uint64_t worker_id, const RuleContext& context) {
  const Worker& worker = *draft.view().workers.Find(worker_id);
  const bool over = LedgerNow(draft, context) >= worker.quarantined_until;
  if (worker.quarantined() && over) EndQuarantine(draft, worker_id, context);
}

void ReevaluateIfExempt(Draft& draft, uint64_t worker_id, absl::Time last_word,
                        const RuleContext& context) {
  const auto period = [](absl::Time time) {
    return absl::ToUnixSeconds(time) / kReevaluateSeconds;
  };
  if (period(last_word) == period(context.now)) return;
  if (IsExempt(*draft.view().workers.Find(worker_id))) QuarantineIfDue(draft, worker_id, context);
}

}  // namespace muster::controller
