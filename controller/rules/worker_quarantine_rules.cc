#include "controller/rules/worker_quarantine_rules.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "controller/model/ledger_rules.h"
#include "controller/policy/health/quarantine_rules.h"

namespace muster::controller {
namespace {

void Judge(Draft& draft, uint64_t worker_id, const RuleContext& context) {
  const Worker& worker = *draft.view().workers.Find(worker_id);
  const absl::Time now = LedgerNow(draft, context);
  const std::optional<Quarantine> verdict =
      JudgeWorker(draft.view(), worker, context.quarantine, now);
  if (!verdict.has_value()) {
    const std::string spared = WhySpared(draft.view(), worker, context.quarantine, now);
    const bool stands = !spared.empty() || IsSpared(worker);
    if (stands && spared != worker.quarantine_reason) {
      draft.EditWorker(worker_id).quarantine_reason = spared;
    }
    return;
  }
  Worker& edited = draft.EditWorker(worker_id);
  edited.quarantined_until = verdict->until;
  edited.quarantines = verdict->number;
  edited.quarantine_reason = verdict->evidence;
}

bool HasRankOn(const Attempt& attempt, const std::string& worker) {
  return std::any_of(attempt.ranks.begin(), attempt.ranks.end(),
                     [&](const Rank& rank) { return rank.worker == worker; });
}

void AddStrike(Worker& worker, Strike strike) {
  const auto later =
      std::upper_bound(worker.strikes.begin(), worker.strikes.end(), strike.time,
                       [](absl::Time time, const Strike& other) { return time < other.time; });
  worker.strikes.insert(later, std::move(strike));
  if (worker.strikes.size() > kMaxStrikes) worker.strikes.erase(worker.strikes.begin());
}

// Earlier attempts that looked like an error of the program, on workers that the current one, which
// got on, is not on.
void StrikeLate(Draft& draft, uint64_t job_id, const RuleContext& context) {
  const Job& job = *draft.view().FindJob(job_id);
  for (const auto& attempt : job.past) {
    const absl::Time ended = HeldUntil(*attempt);
    const bool old = ended < LedgerNow(draft, context) - context.quarantine.window;
    const Rank* failed = FailedRank(*attempt);
    if (old || failed == nullptr || !ProvesTheWorkers(*attempt)) continue;
    const std::string& name = failed->worker;
    const Worker* worker = draft.view().FindWorker(name);
    if (worker == nullptr || HasRankOn(*job.current, name)) continue;
    const bool struck =
        std::any_of(worker->strikes.begin(), worker->strikes.end(), [&](const Strike& strike) {
          return strike.job_id == job_id && strike.attempt == attempt->number;
        });
    if (struck) continue;
    AddStrike(draft.EditWorker(worker->id), {.time = ended,
                                             .job_id = job_id,
                                             .attempt = attempt->number,
                                             .failure_class = attempt->failure_class,
                                             .cause = attempt->cause});
    Judge(draft, worker->id, context);
  }
}

}  // namespace

void StrikeWorker(Draft& draft, const std::string& worker, uint64_t job_id,
                  const RuleContext& context) {
  const Worker* known = draft.view().FindWorker(worker);
  const Attempt& attempt = *draft.view().FindJob(job_id)->current;
  if (known == nullptr || !MayBeTheWorkers(attempt)) return;
  AddStrike(draft.EditWorker(known->id), {.time = LedgerNow(draft, context),
                                          .job_id = job_id,
                                          .attempt = attempt.number,
                                          .failure_class = attempt.failure_class,
                                          .cause = attempt.cause});
  Judge(draft, known->id, context);
}

void JudgeAfterProgress(Draft& draft, uint64_t job_id, const RuleContext& context) {
  StrikeLate(draft, job_id, context);
  std::set<std::string> workers;
  for (const auto& attempt : draft.view().FindJob(job_id)->past) {
    if (!MayBeTheWorkers(*attempt)) continue;
    for (const Rank& rank : attempt->ranks) workers.insert(rank.worker);
  }
  for (const std::string& name : workers) {
    const Worker* worker = draft.view().FindWorker(name);
    if (worker != nullptr && !worker->strikes.empty()) Judge(draft, worker->id, context);
  }
}

void Parole(Draft& draft, uint64_t worker_id, const RuleContext& context) {
  const Worker& worker = *draft.view().workers.Find(worker_id);
  const absl::Time now = LedgerNow(draft, context);
  const bool clean = IncidentsAgainst(worker, absl::InfiniteDuration(), now) == 0;
  if (clean && !worker.quarantined()) return;
  Worker& edited = draft.EditWorker(worker_id);
  if (IsSpared(edited)) edited.quarantine_reason.clear();
  edited.quarantined_until = absl::InfinitePast();
  edited.paroled = now;
}

void ParoleIfDue(Draft& draft, uint64_t worker_id, const RuleContext& context) {
  const Worker& worker = *draft.view().workers.Find(worker_id);
  const bool over = LedgerNow(draft, context) >= worker.quarantined_until;
  if (worker.quarantined() && over) Parole(draft, worker_id, context);
}

void RejudgeIfSpared(Draft& draft, uint64_t worker_id, absl::Time last_word,
                     const RuleContext& context) {
  const auto look = [](absl::Time time) { return absl::ToUnixSeconds(time) / kRejudgeSeconds; };
  if (look(last_word) == look(context.now)) return;
  if (IsSpared(*draft.view().workers.Find(worker_id))) Judge(draft, worker_id, context);
}

}  // namespace muster::controller
