#include "controller/rules/jobs/progress_rules.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "common/protocol/phase_beats.h"
#include "controller/model/ledger_rules.h"
#include "controller/model/pace_rules.h"

namespace muster::controller {
namespace {

using RankStatuses = std::vector<RankStatus>;

double ValueOf(const RankStatus& status, const char* name) {
  const auto it = status.latest.find(name);
  return it == status.latest.end() ? 0 : it->second;
}

// When the rank last made progress: now, unless it stands where it stood.
absl::Duration ProgressAt(const RankStatuses* earlier, const RankStatus& status,
                          absl::Duration now) {
  if (earlier == nullptr) return now;
  for (const RankStatus& before : *earlier) {
    const bool same_rank = before.fence.job_id == status.fence.job_id &&
                           before.fence.attempt == status.fence.attempt &&
                           before.rank == status.rank;
    if (!same_rank) continue;
    const bool still = before.step == status.step && before.phase == status.phase &&
                       before.epoch == status.epoch &&
                       ValueOf(before, kPhaseBeats) == ValueOf(status, kPhaseBeats);
    return still ? before.progress_at : now;
  }
  return now;
}

// The memory of the largest of these ranks that is of the job's attempt; below 0: none is.
double LargestOf(const RankStatuses* ranks, const Job& job) {
  double largest = -1;
  if (ranks == nullptr) return largest;
  for (const RankStatus& status : *ranks) {
    if (status.fence.job_id == job.id && status.fence.attempt == job.attempt) {
      largest = std::max({largest, 0.0, ValueOf(status, "memory_bytes")});
    }
  }
  return largest;
}

// The largest rank's memory, over all workers of the gang.
double LargestMemory(const Snapshot& snapshot, const Job& job) {
  double largest = 0;
  std::set<std::string> workers;
  for (const Rank& rank : job.current->ranks) workers.insert(rank.worker);
  for (const std::string& name : workers) {
    const Worker* worker = snapshot.FindWorker(name);
    if (worker != nullptr) largest = std::max(largest, LargestOf(worker->pulse.ranks.get(), job));
  }
  return largest;
}

// A worker reported its ranks; `before`: its report before (null: none). The whole gang is searched
// only when this worker had its largest rank and that has become smaller. What the gang's other
// ranks have reported of this attempt counts already (an attempt begins at 0).
void NoteMemory(Draft& draft, uint64_t job_id, const RankStatuses* before,
                const RankStatuses* now) {
  const Job& job = *draft.view().FindJob(job_id);
  const double known = job.progress.memory_bytes;
  const double was = LargestOf(before, job);
  const double is = LargestOf(now, job);
  double largest = std::max(known, is);
  if (was >= known && is < known) largest = LargestMemory(draft.view(), job);
  if (largest != known) draft.EditProgress(job_id).shown.memory_bytes = largest;
}

bool IsOfLiveAttempt(const Snapshot& snapshot, const RankStatus& status) {
  const Job* job = snapshot.FindJob(status.fence.job_id);
  return job != nullptr && job->has_live_attempt() && job->attempt == status.fence.attempt;
}

// Whether it is time to store the job's progress: what is not stored is lost when the controller
// dies. It is stored also with any other change of the job.
bool IsSaveDue(const Job& job) {
  const bool new_phase = job.saved_phase != job.ledger.phase;
  const bool moved = new_phase || job.saved_step != job.ledger.step;
  const absl::Duration since = job.ledger.until - job.saved_at;
  return moved && since >= (new_phase ? kSavePhaseEvery : kSaveProgressEvery);
}

ProgressNote NoteOf(const RankStatus& status, bool moved) {
  const double stall = ValueOf(status, "save_stall_seconds");
  return {.phase = status.phase,
          .step = status.step,
          .moved = moved,
          .stall_per_step =
              std::isfinite(stall) ? absl::Seconds(std::max(0.0, stall)) : absl::ZeroDuration()};
}

void TakeIntoJob(Draft& draft, const RankStatus& status, bool moved) {
  const auto [progress, ledger] = draft.EditProgress(status.fence.job_id);
  const Job& job = *draft.view().FindJob(status.fence.job_id);
  if (status.rank == 0) {
    NoteProgress(*job.current, ledger, NoteOf(status, moved));
    if (IsSaveDue(job)) draft.SaveProgress(job.id);
  }
  progress.memory_peak_bytes =
      std::max({progress.memory_peak_bytes, ValueOf(status, "memory_peak_bytes"),
                ValueOf(status, "memory_bytes")});
  if (status.rank != 0) return;
  progress.phase = status.phase;
  // Before it has loaded its checkpoint a restarted rank reports 0, which is not shown.
  if (status.step > 0 && status.step >= job.current->first_step) {
    progress.step = status.step;
    progress.epoch = status.epoch;
  }
  if (status.total_steps > 0) progress.total_steps = status.total_steps;
  const bool got_on = moved && status.step > job.current->first_step;
  if (got_on) NotePace(job.attempt, progress.pace, status.step, progress.total_steps, ledger.until);
  for (const auto& [name, value] : status.latest) {
    if (name != kPhaseBeats) KeepShown(progress.latest, name, value);
  }
  const auto accuracy = status.latest.find("validation_accuracy");
  if (accuracy != status.latest.end() && std::isfinite(accuracy->second)) {
    progress.best_validation_accuracy =
        std::max(progress.best_validation_accuracy, accuracy->second);
  }
}

}  // namespace

void TakeRankStatuses(Draft& draft, uint64_t worker_id, const std::vector<RankStatus>& statuses,
                      absl::Duration now) {
  auto ranks = std::make_shared<RankStatuses>(statuses);
  WorkerPulse& pulse = draft.EditPulse(worker_id);
  const Worker& worker = *draft.view().workers.Find(worker_id);
  const std::shared_ptr<const RankStatuses> before = pulse.ranks;
  for (RankStatus& status : *ranks) status.progress_at = ProgressAt(before.get(), status, now);
  pulse.ranks = ranks;
  std::set<uint64_t> jobs;
  for (const RankStatus& status : *ranks) {
    if (FindLiveRank(draft.view(), status.fence, status.rank, worker.name, worker.incarnation) ==
        nullptr) {
      continue;
    }
    TakeIntoJob(draft, status, status.progress_at == now);
    jobs.insert(status.fence.job_id);
  }
  // A rank that is gone may have been the largest.
  if (before != nullptr) {
    for (const RankStatus& status : *before) {
      if (IsOfLiveAttempt(draft.view(), status)) jobs.insert(status.fence.job_id);
    }
  }
  for (uint64_t id : jobs) NoteMemory(draft, id, before.get(), ranks.get());
}

bool IsFencedOff(const Snapshot& snapshot, const Worker& worker, const RankStatus& status) {
  if (FindLiveRank(snapshot, status.fence, status.rank, worker.name, worker.incarnation) !=
      nullptr) {
    return false;
  }
  const Job* job = snapshot.FindJob(status.fence.job_id);
  if (job == nullptr) return true;
  // Another order to stop it would not help.
  const Attempt* its_own = FindAttempt(*job, status.fence.attempt);
  if (its_own != nullptr && status.rank < its_own->ranks.size()) {
    const Rank& rank = its_own->ranks[status.rank];
    const bool unkillable = rank.state == RankState::kUnkillable && rank.worker == worker.name &&
                            rank.incarnation == worker.incarnation;
    if (unkillable) return false;
  }
  if (!job->has_live_attempt()) return true;
  const Attempt& attempt = *job->current;
  const bool same_gang =
      attempt.number == status.fence.attempt && attempt.generation == status.fence.generation;
  if (!same_gang || status.rank >= attempt.ranks.size()) return true;
  const Rank& rank = attempt.ranks[status.rank];
  const bool ended_here = rank.state == RankState::kExited && rank.worker == worker.name &&
                          rank.incarnation == worker.incarnation;
  return !ended_here;
}

}  // namespace muster::controller
