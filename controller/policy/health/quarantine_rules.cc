#include "controller/policy/health/quarantine_rules.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/units.h"
#include "controller/policy/health/eligibility.h"

namespace muster::controller {
namespace {

std::vector<const WorkerFailure*> Counting(const Worker& worker, absl::Duration window,
                                           absl::Time now) {
  std::vector<const WorkerFailure*> failures;
  for (const WorkerFailure& failure : worker.failures) {
    if (failure.time > worker.quarantine_ended && failure.time >= now - window)
      failures.push_back(&failure);
  }
  return failures;
}

std::set<absl::Time> Incidents(const std::vector<const WorkerFailure*>& failures) {
  std::set<absl::Time> incidents;
  for (const WorkerFailure* failure : failures) incidents.insert(failure->time);
  return incidents;
}

bool HasRankOn(const Attempt& attempt, const std::string& worker) {
  return std::any_of(attempt.ranks.begin(), attempt.ranks.end(),
                     [&](const Rank& rank) { return rank.worker == worker; });
}

// The number of an attempt after `attempt` that got on without the worker: it committed a
// checkpoint, or the job succeeded with it. 0: none.
uint32_t GotOnWithout(const Snapshot& snapshot, const Job& job, uint32_t attempt,
                      const std::string& worker) {
  std::set<uint32_t> without;
  for (size_t i = attempt; i < job.past.size(); ++i) {
    if (!HasRankOn(*job.past[i], worker)) without.insert(job.past[i]->number);
  }
  const bool current = job.current != nullptr && job.current->number > attempt;
  if (current && !HasRankOn(*job.current, worker)) {
    if (job.state == JobState::kSucceeded) return job.current->number;
    without.insert(job.current->number);
  }
  if (without.empty()) return 0;
  for (uint64_t id : job.checkpoints) {
    const Checkpoint& checkpoint = *snapshot.FindCheckpoint(id);
    // A row that was never finished has no verified or committed past: its path is empty.
    if (!checkpoint.path.empty() && without.count(checkpoint.attempt) != 0) {
      return checkpoint.attempt;
    }
  }
  return 0;
}

// What stands against the worker from one job.
struct JobFailures {
  const Job* job = nullptr;
  uint32_t newest = 0;  // attempt that failed here
};

std::map<uint64_t, JobFailures> ByJob(const Snapshot& snapshot,
                                      const std::vector<const WorkerFailure*>& failures) {
  std::map<uint64_t, JobFailures> jobs;
  for (const WorkerFailure* failure : failures) {
    const Job* job = snapshot.FindJob(failure->job_id);
    if (job == nullptr) continue;
    JobFailures& of_job = jobs[failure->job_id];
    of_job.job = job;
    of_job.newest = failure->attempt;
  }
  return jobs;
}

// The second signal, in words; empty: there is none. One job gives none, whatever it did.
std::string SecondSignal(const Snapshot& snapshot, const Worker& worker,
                         const std::vector<const WorkerFailure*>& failures) {
  const std::map<uint64_t, JobFailures> jobs = ByJob(snapshot, failures);
  if (jobs.size() < 2) return "";
  std::set<std::string> owners;
  for (const auto& [id, failures] : jobs) owners.insert(failures.job->owner);
  if (owners.size() >= 2) {
    return absl::StrCat("of ", jobs.size(), " jobs of ", owners.size(), " users");
  }
  for (const auto& [id, failures] : jobs) {
    const uint32_t without = GotOnWithout(snapshot, *failures.job, failures.newest, worker.name);
    if (without == 0) continue;
    return absl::StrCat("of ", jobs.size(), " jobs, of which job ", id,
                        " got on without it in attempt ", without);
  }
  return "";
}

struct PoolCount {
  uint32_t workers = 0;
  uint32_t quarantined = 0;  // others than this one
  uint32_t ready = 0;        // likewise
};

PoolCount CountPool(const Snapshot& snapshot, const Worker& worker) {
  PoolCount count;
  snapshot.workers.ForEach([&](const Worker& other) {
    if (other.facts.pool != worker.facts.pool || other.lost) return;
    ++count.workers;
    if (other.id == worker.id) return;
    count.quarantined += other.quarantined();
    count.ready += TakesWork(other);
  });
  return count;
}

// Of two workers one may be away while the other is there.
bool TooManyInPool(const PoolCount& count, double max_share) {
  if (count.workers == 2) return count.ready == 0 || max_share <= 0;
  return count.quarantined + 1 > max_share * count.workers;
}

// More are not named in a sentence; each is listed with its worker.
constexpr size_t kNamedFailures = 3;

// What counts against the worker when that is enough for a quarantine, and the second signal.
struct Case {
  std::vector<const WorkerFailure*> failures;
  size_t incidents = 0;
  std::string second;
};

std::optional<Case> CaseAgainst(const Snapshot& snapshot, const Worker& worker,
                                const QuarantineSettings& settings, absl::Time now) {
  if (worker.quarantined() || settings.incidents == 0) return std::nullopt;
  Case found{.failures = Counting(worker, settings.window, now)};
  found.incidents = Incidents(found.failures).size();
  if (found.incidents < settings.incidents) return std::nullopt;
  found.second = SecondSignal(snapshot, worker, found.failures);
  if (found.second.empty()) return std::nullopt;
  return found;
}

std::string EvidenceOf(const Case& found, const QuarantineSettings& settings) {
  const size_t left_out = found.failures.size() - std::min(found.failures.size(), kNamedFailures);
  const auto newest = found.failures.begin() + static_cast<std::ptrdiff_t>(left_out);
  return absl::StrCat(found.incidents, " failures within ", HumanDuration(settings.window), " ",
                      found.second, left_out == 0 ? ": " : "; the newest: ",
                      absl::StrJoin(newest, found.failures.end(), ", ",
                                    [](std::string* out, const WorkerFailure* failure) {
                                      absl::StrAppend(out, "job ", failure->job_id, " attempt ",
                                                      failure->attempt, " ",
                                                      FailureClassName(failure->failure_class));
                                    }));
}

}  // namespace

bool MayBeTheWorkers(const Attempt& attempt) {
  switch (attempt.failure_class) {
    case FailureClass::kWorkerLost:
    case FailureClass::kHang:
    case FailureClass::kCorruption:
    case FailureClass::kRankKilled:
      return true;
    case FailureClass::kStartFailed:
      return attempt.missing == Missing::kNothing;
    case FailureClass::kNone:
    case FailureClass::kPreempted:
    case FailureClass::kOutOfMemory:
    case FailureClass::kNonFinite:
    case FailureClass::kDataError:
    case FailureClass::kCheckpointFailed:
    case FailureClass::kApplication:
    case FailureClass::kPeerLost:
    case FailureClass::kTimeLimit:
    case FailureClass::kStorageUnavailable:
      return false;
  }
  return false;
}

bool CountsAgainstWorkerLater(const Attempt& attempt) {
  const FailureClass kind = attempt.failure_class;
  return attempt.missing == Missing::kOnWorker || kind == FailureClass::kApplication ||
         kind == FailureClass::kDataError || kind == FailureClass::kNonFinite;
}

bool IsCheckpointFailure(const Attempt& attempt) {
  return attempt.failure_class == FailureClass::kCheckpointFailed ||
         attempt.failure_class == FailureClass::kCorruption;
}

std::set<std::string> FailedOn(const Job& job) {
  std::set<std::string> workers;
  uint32_t left = job.restarts_in_row;
  const auto add = [&](const Attempt& attempt) {
    if (attempt.live() || attempt.number <= job.requeued_after || left == 0) return false;
    const FailureClass kind = attempt.failure_class;
    const bool free = kind == FailureClass::kPreempted || kind == FailureClass::kNone ||
                      kind == FailureClass::kStorageUnavailable;
    if (free) return true;
    --left;
    if (!CountsAgainstWorkerLater(attempt) && !IsCheckpointFailure(attempt)) return false;
    // Where it is missing is known; the others of the gang may have it.
    const Rank* lacks = attempt.missing != Missing::kNothing ? FailedRank(attempt) : nullptr;
    for (const Rank& rank : attempt.ranks) {
      if (lacks == nullptr || lacks == &rank) workers.insert(rank.worker);
    }
    return true;
  };
  if (job.current == nullptr || !add(*job.current)) return workers;
  for (auto it = job.past.rbegin(); it != job.past.rend() && add(**it); ++it) {
  }
  return workers;
}

uint32_t IncidentsAgainst(const Worker& worker, absl::Duration window, absl::Time now) {
  if (worker.failures.empty()) return 0;
  return static_cast<uint32_t>(Incidents(Counting(worker, window, now)).size());
}

absl::Time IncidentsFade(const Worker& worker, absl::Duration window, absl::Time now) {
  if (worker.failures.empty()) return absl::InfiniteFuture();
  const std::set<absl::Time> incidents = Incidents(Counting(worker, window, now));
  return incidents.empty() ? absl::InfiniteFuture() : *incidents.begin() + window;
}

std::optional<Quarantine> EvaluateWorker(const Snapshot& snapshot, const Worker& worker,
                                         const QuarantineSettings& settings, absl::Time now) {
  const std::optional<Case> found = CaseAgainst(snapshot, worker, settings, now);
  if (!found.has_value()) return std::nullopt;
  if (TooManyInPool(CountPool(snapshot, worker), settings.max_share)) return std::nullopt;
  const bool long_good = now - worker.quarantine_ended > settings.longest;
  const uint32_t number = (long_good ? 0 : worker.quarantines) + 1;
  absl::Duration length = settings.first;
  for (uint32_t i = 1; i < number && length < settings.longest; ++i) length *= 2;
  Quarantine quarantine{.until = now + std::min(length, settings.longest), .number = number};
  quarantine.evidence = EvidenceOf(*found, settings);
  return quarantine;
}

bool IsExempt(const Worker& worker) { return absl::StartsWith(worker.quarantine_reason, kExempt); }

std::string WhyExempt(const Snapshot& snapshot, const Worker& worker,
                      const QuarantineSettings& settings, absl::Time now) {
  const std::optional<Case> found = CaseAgainst(snapshot, worker, settings, now);
  if (!found.has_value()) return "";
  const PoolCount count = CountPool(snapshot, worker);
  if (!TooManyInPool(count, settings.max_share)) return "";
  const std::string pool = absl::StrCat("pool ", worker.facts.pool);
  const std::string why = count.workers == 1 ? absl::StrCat("it is the only worker of ", pool)
                          : count.workers == 2
                              ? absl::StrCat("the other worker of ", pool, " is not ready")
                              : absl::StrCat(count.quarantined, " of the ", count.workers,
                                             " workers of ", pool, " are in quarantine already");
  return absl::StrCat(kExempt, ", since ", why, ": ", EvidenceOf(*found, settings));
}

}  // namespace muster::controller
