#include "controller/policy/health/restart_rules.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/units.h"
#include "controller/model/restart_budget.h"
#include "controller/policy/health/data_sight.h"
#include "controller/policy/health/eligibility.h"
#include "controller/policy/health/quarantine_rules.h"

namespace muster::controller {
namespace {

// The part of a back-off that chance may take off.
constexpr double kJitter = 0.25;
constexpr int32_t kSigKill = 9;

bool WasBadSpec(const Attempt& attempt) {
  return attempt.failure_class == FailureClass::kStartFailed &&
         std::any_of(attempt.ranks.begin(), attempt.ranks.end(),
                     [](const Rank& rank) { return rank.exit_code == kUsageExitCode; });
}

// Died of a fault of its own; SIGKILL comes from outside.
bool Crashed(const Attempt& attempt) {
  return std::any_of(attempt.ranks.begin(), attempt.ranks.end(),
                     [](const Rank& rank) { return rank.signal != 0 && rank.signal != kSigKill; });
}

// Whether the failure follows from the job's own code and data, so that the same step brings it
// again. A hang or a crash may also be the machine's: only when the attempt had got on before.
bool Repeats(const Attempt& attempt) {
  const bool got_on = attempt.last_step > attempt.first_step;
  switch (attempt.failure_class) {
    case FailureClass::kApplication:
    case FailureClass::kNonFinite:
    case FailureClass::kDataError:
    case FailureClass::kOutOfMemory:
      return true;
    case FailureClass::kHang:
      return got_on;
    case FailureClass::kRankKilled:
      return got_on && Crashed(attempt);
    case FailureClass::kNone:
    case FailureClass::kPreempted:
    case FailureClass::kWorkerLost:
    case FailureClass::kCheckpointFailed:
    case FailureClass::kCorruption:
    case FailureClass::kStartFailed:
    case FailureClass::kPeerLost:
    case FailureClass::kTimeLimit:
    case FailureClass::kStorageUnavailable:
      return false;
  }
  return false;
}

// Whether it failed; those that only made way, or whose root was away, do not count.
bool Counts(const Attempt& attempt) {
  return attempt.failure_class != FailureClass::kPreempted &&
         attempt.failure_class != FailureClass::kNone &&
         attempt.failure_class != FailureClass::kStorageUnavailable;
}

// The last attempt before this one that failed, and is not before a requeue. Null: none.
const Attempt* FailedBefore(const Job& job) {
  for (auto it = job.past.rbegin(); it != job.past.rend(); ++it) {
    if ((*it)->number <= job.requeued_after) return nullptr;
    if (Counts(**it)) return it->get();
  }
  return nullptr;
}

bool IsBeingReread(const Snapshot& snapshot, uint64_t checkpoint_id) {
  return snapshot.outbox.AnyOf([checkpoint_id](const OutboxRow& row) {
    return row.kind == AssignmentKind::kVerify && row.checkpoint_id == checkpoint_id;
  });
}

// Whether the attempt could load nothing of what it was to resume from, and all of that is in
// doubt, or read by an agent just now.
bool AllIsInDoubt(const Snapshot& snapshot, const Attempt& attempt) {
  const bool could_not_load = attempt.failure_class == FailureClass::kStartFailed ||
                              attempt.failure_class == FailureClass::kCheckpointFailed ||
                              attempt.failure_class == FailureClass::kCorruption;
  if (!could_not_load) return false;
  bool any = false;
  for (const uint64_t id : attempt.resume) {
    const Checkpoint* row = snapshot.FindCheckpoint(id);
    if (row == nullptr || !row->restorable()) continue;
    if (!row->doubt.has_value() && !IsBeingReread(snapshot, id)) return false;
    any = true;
  }
  return any;
}

// Whether both ended for the same cause, as far as that is known. How a rank that hung was killed
// then does not count.
bool EndedAlike(const Attempt& a, const Attempt& b) {
  if (a.failure_class != b.failure_class) return false;
  const Rank* one = FailedRank(a);
  const Rank* other = FailedRank(b);
  if (a.failure_class == FailureClass::kHang || one == nullptr || other == nullptr) return true;
  return one->exit_code == other->exit_code && one->signal == other->signal;
}

// Whether one of its pools could hold the gang, if all others left, without these workers.
bool CouldRunWithout(const Snapshot& snapshot, const JobNeeds& needs,
                     const std::set<std::string>& without) {
  std::map<std::string, uint64_t> ranks;  // by pool
  snapshot.workers.ForEach([&](const Worker& worker) {
    if (!TakesWork(worker, needs) || !CanUseRoot(worker, needs)) return;
    const DataView* data = DataViewOf(worker, needs.data);
    if (data != nullptr && IsGivenUp(*data)) return;
    if (without.count(worker.name) != 0) return;
    ranks[worker.facts.pool] += IdleRanks(worker, needs);
  });
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](const auto& pool) { return pool.second >= needs.min_ranks; });
}

// Likewise without any worker that both attempts were on.
bool CouldRunElsewhere(const Snapshot& snapshot, const Job& job, const Attempt& before) {
  std::set<std::string> both;
  for (const Rank& rank : job.current->ranks) {
    const bool shared = std::any_of(before.ranks.begin(), before.ranks.end(),
                                    [&](const Rank& other) { return other.worker == rank.worker; });
    if (shared) both.insert(rank.worker);
  }
  return !both.empty() && CouldRunWithout(snapshot, job.settings->needs, both);
}

bool SameAsBefore(const Snapshot& snapshot, const Job& job) {
  const Attempt& now = *job.current;
  const Attempt* before = FailedBefore(job);
  const bool same = before != nullptr && Repeats(now) && EndedAlike(now, *before) &&
                    before->last_step == now.last_step && now.last_step > 0;
  return same && !CouldRunElsewhere(snapshot, job, *before);
}

// Whether some workers took part in every attempt since the job last got further that could not use
// its checkpoints, and the job fits without them.
bool OneMachineSaysSo(const Snapshot& snapshot, const Job& job) {
  if (!IsCheckpointFailure(*job.current)) return false;
  std::set<std::string> all;
  for (const Rank& rank : job.current->ranks) all.insert(rank.worker);
  // Restarts charged since the job last got further: only so many failed attempts are looked at.
  uint32_t left = job.restarts_in_row;
  for (auto it = job.past.rbegin(); it != job.past.rend() && left > 0; ++it) {
    const Attempt& attempt = **it;
    if (attempt.number <= job.requeued_after) break;
    if (!Counts(attempt)) continue;
    --left;
    if (!IsCheckpointFailure(attempt)) continue;
    std::erase_if(all, [&](const std::string& name) {
      return std::none_of(attempt.ranks.begin(), attempt.ranks.end(),
                          [&](const Rank& rank) { return rank.worker == name; });
    });
  }
  return !all.empty() && CouldRunWithout(snapshot, job.settings->needs, all);
}

// How often each worker turned out to lack what the command runs, since the last requeue.
std::map<std::string, uint32_t> Lacking(const Job& job) {
  std::map<std::string, uint32_t> workers;
  const auto count = [&](const Attempt& attempt) {
    const Rank* rank = FailedRank(attempt);
    const bool lacks = attempt.missing == Missing::kOnWorker && rank != nullptr;
    if (lacks && attempt.number > job.requeued_after) ++workers[rank->worker];
  };
  for (const auto& attempt : job.past) count(*attempt);
  count(*job.current);
  return workers;
}

// Why the job ends when what its command runs was not there; empty: another worker may have it.
std::string WhyNobodyHasIt(const Snapshot& snapshot, const Job& job,
                           const std::map<std::string, uint32_t>& lacking) {
  if (job.current->missing == Missing::kInUpload) return "trying again would not help";
  std::set<std::string> names;
  for (const auto& [name, times] : lacking) names.insert(name);
  if (CouldRunWithout(snapshot, job.settings->needs, names)) return "";
  const std::string others =
      names.size() <= 1 ? ""
                        : absl::StrCat("nor have ", names.size() - 1, " other",
                                       names.size() == 2 ? "" : "s", " that were tried, and ");
  return absl::StrCat(others, "no other worker could take the job");
}

absl::Duration Doubled(absl::Duration wait, uint32_t times, absl::Duration most) {
  for (uint32_t i = 0; i < times && wait < most; ++i) wait *= 2;
  return std::min(wait, most);
}

absl::Duration Backoff(const RestartSettings& restart, uint32_t restarts_in_row, uint64_t seed) {
  const absl::Duration wait = Doubled(restart.backoff, restarts_in_row, restart.max_backoff);
  const double chance = static_cast<double>(SplitMix64(seed) >> 11) * 0x1.0p-53;  // [0, 1)
  // Whole milliseconds: what is shown and stored.
  return absl::Milliseconds(absl::ToInt64Milliseconds(wait * (1.0 - kJitter * chance)));
}

}  // namespace

bool GotFurtherUnsaved(const Snapshot& snapshot, const Job& job) {
  int64_t before = job.current->first_step;
  for (const auto& attempt : job.past) {
    if (attempt->number > job.requeued_after) before = std::max(before, attempt->last_step);
  }
  return job.current->last_step > before && FurthestCommit(snapshot, job) < 0;
}

int64_t FurthestCommit(const Snapshot& snapshot, const Job& job) {
  int64_t furthest = -1;
  for (const uint64_t id : job.checkpoints) {
    const Checkpoint& row = *snapshot.FindCheckpoint(id);
    // A row that was never committed has no path.
    const bool counts = !row.path.empty() && row.attempt > job.requeued_after;
    if (counts) furthest = std::max(furthest, row.step);
  }
  return furthest;
}

RestartDecision DecideRestart(const Snapshot& snapshot, const Job& job, uint64_t seed) {
  MUSTER_CHECK(job.current != nullptr, "a restart is decided before the first placement");
  const Attempt& attempt = *job.current;
  const absl::string_view kind = FailureClassName(attempt.failure_class);
  RestartDecision decision;
  if (attempt.failure_class == FailureClass::kPreempted) {
    decision.message =
        absl::StrCat("attempt ", attempt.number, " was preempted (", attempt.cause, "); ");
    if (attempt.lost_slot_seconds >= 0) {
      absl::StrAppend(&decision.message, attempt.lost_slot_seconds,
                      " slot-seconds of work were lost; ");
    }
    absl::StrAppend(&decision.message, "queued again");
    return decision;
  }
  if (attempt.failure_class == FailureClass::kStorageUnavailable) {
    decision.wait = kStorageRetry;
    decision.message = absl::StrCat("attempt ", attempt.number, " ended (", kind, ": ",
                                    attempt.cause, "); queued again, free of charge");
    return decision;
  }
  if (WasBadSpec(attempt)) {
    decision.input = JobInput::kNotRetryable;
    decision.message = absl::StrCat(kind, ": ", attempt.cause, "; trying again would not help");
    return decision;
  }
  if (attempt.failure_class == FailureClass::kTimeLimit) {
    decision.input = JobInput::kNotRetryable;
    decision.message = absl::StrCat(kind, ": ", attempt.cause);
    return decision;
  }
  if (SameAsBefore(snapshot, job)) {
    decision.input = JobInput::kNoProgressMade;
    decision.message =
        absl::StrCat(kind, " twice in a row at step ", attempt.last_step, ": ", attempt.cause);
    return decision;
  }
  const bool missing = attempt.missing != Missing::kNothing;
  bool at_once = false;
  if (missing) {
    const std::map<std::string, uint32_t> lacking = Lacking(job);
    const std::string why = WhyNobodyHasIt(snapshot, job, lacking);
    if (!why.empty()) {
      decision.input = JobInput::kNotRetryable;
      decision.message = absl::StrCat(kind, ": ", attempt.cause, "; ", why);
      return decision;
    }
    // Waiting does not help where the program is missing: after the first such failure on a worker
    // the job is tried elsewhere at once.
    const Rank* failed = FailedRank(attempt);
    const auto times = failed == nullptr ? lacking.end() : lacking.find(failed->worker);
    at_once = times != lacking.end() && times->second == 1;
  }
  const RestartBudget budget = RestartBudgetOf(job, attempt.failure_class);
  if (!budget.given) {
    decision.input = JobInput::kNotRetryable;
    decision.message = absl::StrCat(kind, ": ", attempt.cause, "; trying again would not help (",
                                    budget.key, ": 0 unless the spec says otherwise)");
    return decision;
  }
  const bool spent = budget.used >= budget.limit;
  // A budget of 0 stays 0: such a failure gets no extra attempt. The other worker may be busy for
  // long, so the extra attempts are bounded too.
  const uint32_t beyond = spent ? budget.used - budget.limit : 0;
  const bool another =
      spent && budget.limit > 0 && beyond < kMostRestartsBeyond && OneMachineSaysSo(snapshot, job);
  if (spent && !another) {
    const bool hung = attempt.failure_class == FailureClass::kHang;
    decision.input = hung ? JobInput::kNoProgressMade : JobInput::kBudgetSpent;
    decision.message = absl::StrCat(kind, ": ", attempt.cause, "; restarted ", budget.used,
                                    " times in a row without getting further (", budget.key, ": ",
                                    budget.limit, ")");
    return decision;
  }
  decision.charged = true;
  if (!at_once) decision.wait = Backoff(job.settings->restart, job.restarts_in_row, seed);
  if (beyond > 0) {
    decision.wait =
        std::max(decision.wait, Doubled(absl::Minutes(1), beyond - 1, /*most=*/absl::Hours(1)));
  }
  const bool in_doubt = AllIsInDoubt(snapshot, attempt);
  if (in_doubt) decision.wait = std::max(decision.wait, kDoubtRetry);
  decision.message = absl::StrCat(
      "attempt ", attempt.number, " lost (", kind, ": ", attempt.cause, "); ",
      missing ? "another worker may have it; " : "",
      another ? "no other worker has said so yet, and one could take the job; " : "", "restart ",
      budget.used + 1, " of ", budget.limit,
      decision.wait == absl::ZeroDuration() ? " at once"
                                            : absl::StrCat(" in ", HumanDuration(decision.wait)),
      in_doubt ? "; what it could resume from is read again meanwhile" : "");
  return decision;
}

}  // namespace muster::controller
