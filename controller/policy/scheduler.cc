#include "controller/policy/scheduler.h"

#include <set>

#include "controller/policy/scheduling_round.h"

namespace muster::controller {

void Scheduler::Follow(const Snapshot& snapshot, const ScheduleContext& context) {
  const absl::Time ledger_now = snapshot.LedgerTime(context.now);
  snapshot.workers.ForEachChange(workers_, [&](uint64_t id, const Worker*, const Worker* now) {
    if (now == nullptr) return index_.Remove(id);
    index_.Put(*now, ledger_now, context.settings.incident_window);
  });
  workers_ = snapshot.workers;
  index_.Advance(ledger_now, context.settings.incident_window);
  std::set<std::string> keys;
  snapshot.jobs.ForEachChange(jobs_, [&](uint64_t id, const Job* before, const Job* now) {
    queue_.Put(snapshot, id, now, context);
    running_.Put(snapshot, id, now);
    const bool succeeded = now != nullptr && now->state == JobState::kSucceeded;
    if (before != nullptr && succeeded && before->state != JobState::kSucceeded) {
      keys.insert(RunTimeKey(*now->settings));
    }
    // What was learned from it may be forgotten with it. It may have succeeded since last time.
    if (now == nullptr) keys.insert(RunTimeKey(*before->settings));
  });
  jobs_ = snapshot.jobs;
  for (const std::string& key : keys) {
    const LearnedRunTime* before = run_times_.Find(key);
    const LearnedRunTime* now = snapshot.run_times.Find(key);
    const absl::Duration was = before == nullptr ? absl::ZeroDuration() : before->Longest();
    const absl::Duration is = now == nullptr ? absl::ZeroDuration() : now->Longest();
    if (was != is) running_.RunTimesChanged(snapshot, key);
  }
  run_times_ = snapshot.run_times;
  queue_.Advance(snapshot, context);
}

Decision Scheduler::Decide(const Snapshot& snapshot, const ScheduleContext& context) {
  Follow(snapshot, context);
  Decision decision =
      RunRound({snapshot, context, index_, queue_, running_, considered_, further_looks_});
  if (decision.due_at > context.now) {
    decision.due_at = std::min(decision.due_at, queue_.NextDue(context));
  }
  return decision;
}

Decision Schedule(const Snapshot& snapshot, const ScheduleContext& context) {
  return Scheduler().Decide(snapshot, context);
}

}  // namespace muster::controller
