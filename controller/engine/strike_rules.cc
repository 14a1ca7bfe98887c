#include "controller/engine/strike_rules.h"

#include <optional>
#include <set>

#include "controller/policy/quarantine_rules.h"

namespace muster::controller {
namespace {

void Judge(Draft& draft, uint64_t worker_id, const RuleContext& context) {
  const Worker& worker = *draft.view().workers.Find(worker_id);
  const std::optional<Quarantine> verdict =
      JudgeWorker(draft.view(), worker, context.quarantine, context.now);
  if (!verdict.has_value()) return;
  Worker& edited = draft.EditWorker(worker_id);
  edited.quarantined_until = verdict->until;
  edited.quarantines = verdict->number;
  edited.quarantine_reason = verdict->evidence;
}

}  // namespace

void StrikeWorker(Draft& draft, const std::string& worker, uint64_t job_id,
                  const RuleContext& context) {
  const Worker* known = draft.view().FindWorker(worker);
  const Attempt& attempt = *draft.view().FindJob(job_id)->current;
  if (known == nullptr || !MayBeTheWorkers(attempt.failure_class)) return;
  Worker& edited = draft.EditWorker(known->id);
  edited.strikes.push_back({.time = context.now,
                            .job_id = job_id,
                            .attempt = attempt.number,
                            .failure_class = attempt.failure_class,
                            .cause = attempt.cause});
  if (edited.strikes.size() > kMaxStrikes) edited.strikes.erase(edited.strikes.begin());
  Judge(draft, edited.id, context);
}

void JudgeAfterProgress(Draft& draft, uint64_t job_id, const RuleContext& context) {
  std::set<std::string> workers;
  for (const auto& attempt : draft.view().FindJob(job_id)->past) {
    if (!MayBeTheWorkers(attempt->failure_class)) continue;
    for (const Rank& rank : attempt->ranks) workers.insert(rank.worker);
  }
  for (const std::string& name : workers) {
    const Worker* worker = draft.view().FindWorker(name);
    if (worker != nullptr && !worker->strikes.empty()) Judge(draft, worker->id, context);
  }
}

void Parole(Draft& draft, uint64_t worker_id, const RuleContext& context) {
  const Worker& worker = *draft.view().workers.Find(worker_id);
  const bool clean = IncidentsAgainst(worker, absl::InfiniteDuration(), context.now) == 0;
  if (clean && !worker.quarantined()) return;
  Worker& edited = draft.EditWorker(worker_id);
  edited.quarantined_until = absl::InfinitePast();
  edited.paroled = context.now;
}

void ParoleIfDue(Draft& draft, uint64_t worker_id, const RuleContext& context) {
  const Worker& worker = *draft.view().workers.Find(worker_id);
  if (worker.quarantined() && context.now >= worker.quarantined_until)
    Parole(draft, worker_id, context);
}

}  // namespace muster::controller
