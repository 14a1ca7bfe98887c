#include "controller/policy/retention_rules.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster::controller {
namespace {

std::set<uint64_t> BeingCaredFor(const Snapshot& snapshot) {
  std::set<uint64_t> ids;
  for (const auto& [seq, row] : *snapshot.outbox) {
    if (row.checkpoint_id != 0) ids.insert(row.checkpoint_id);
  }
  return ids;
}

bool Newer(const Checkpoint* a, const Checkpoint* b) {
  return a->step != b->step ? a->step > b->step : a->id > b->id;
}

// What of the job is on disk, newest first.
std::vector<const Checkpoint*> PresentOnes(const Snapshot& snapshot, const Job& job) {
  std::vector<const Checkpoint*> present;
  for (uint64_t id : job.checkpoints) {
    const Checkpoint* checkpoint = snapshot.FindCheckpoint(id);
    if (checkpoint->restorable() || checkpoint->state == CheckpointState::kCorrupt) {
      present.push_back(checkpoint);
    }
  }
  std::sort(present.begin(), present.end(), Newer);
  return present;
}

// While a gang starts it may still load any of these.
bool MayBeLoading(const Job& job, uint64_t id) {
  if (!job.has_live_attempt() || job.current->reached_running) return false;
  const std::vector<uint64_t>& resume = job.current->resume;
  return std::find(resume.begin(), resume.end(), id) != resume.end();
}

std::vector<const Checkpoint*> Superfluous(const Snapshot& snapshot, const Job& job,
                                           const std::set<uint64_t>& counted_on) {
  const std::vector<const Checkpoint*> present = PresentOnes(snapshot, job);
  const auto best = std::find_if(present.begin(), present.end(),
                                 [](const Checkpoint* c) { return c->best && c->restorable(); });
  std::vector<const Checkpoint*> superfluous;
  uint32_t newer_verified = 0;
  for (const Checkpoint* checkpoint : present) {
    const bool is_best = best != present.end() && *best == checkpoint;
    if (newer_verified >= job.settings->keep_last && !is_best &&
        !MayBeLoading(job, checkpoint->id) && counted_on.count(checkpoint->id) == 0) {
      superfluous.push_back(checkpoint);
    }
    if (checkpoint->state == CheckpointState::kVerified) ++newer_verified;
  }
  return superfluous;
}

bool InPools(const Job& job, const std::string& pool) {
  const std::vector<JobNeeds::Pool>& pools = job.settings->needs.pools;
  return std::any_of(pools.begin(), pools.end(),
                     [&pool](const JobNeeds::Pool& own) { return own.name == pool; });
}

}  // namespace

std::set<uint64_t> CountedOnByOthers(const Snapshot& snapshot) {
  std::set<uint64_t> ids;
  for (uint64_t job_id : *snapshot.resuming_jobs) {
    for (uint64_t id : snapshot.FindJob(job_id)->settings->resume_from) {
      // A broken one helps nobody.
      if (snapshot.FindCheckpoint(id)->restorable()) ids.insert(id);
    }
  }
  return ids;
}

const Worker* ChooseCaretaker(const Snapshot& snapshot, const Job& job) {
  std::map<std::string, uint32_t> busy;
  for (const auto& [seq, row] : *snapshot.outbox) {
    if (row.checkpoint_id != 0) ++busy[row.worker];
  }
  const Worker* chosen = nullptr;
  uint32_t chosen_busy = 0;
  snapshot.workers.ForEach([&](const Worker& worker) {
    const bool fit = worker.connected && worker.presence == Presence::kReady && !worker.draining &&
                     InPools(job, worker.facts.pool);
    if (!fit) return;
    const auto it = busy.find(worker.name);
    const uint32_t load = it == busy.end() ? 0 : it->second;
    if (chosen == nullptr || load < chosen_busy) {
      chosen = &worker;
      chosen_busy = load;
    }
  });
  return chosen;
}

CareForCheckpoints PlanRetention(const Snapshot& snapshot, absl::Duration now) {
  CareForCheckpoints care;
  if (snapshot.retention_jobs->empty()) return care;
  const std::set<uint64_t> cared_for = BeingCaredFor(snapshot);
  const std::set<uint64_t> counted_on = CountedOnByOthers(snapshot);
  for (uint64_t id : *snapshot.retention_jobs) {
    const Job& job = *snapshot.FindJob(id);
    const Worker* worker = ChooseCaretaker(snapshot, job);
    if (worker == nullptr) continue;
    const std::vector<const Checkpoint*> superfluous = Superfluous(snapshot, job, counted_on);
    for (const Checkpoint* checkpoint : superfluous) {
      if (cared_for.count(checkpoint->id) != 0 || checkpoint->retry_at > now) continue;
      care.actions.push_back(
          {.kind = AssignmentKind::kDelete,
           .checkpoint_id = checkpoint->id,
           .worker = worker->name,
           .reason = absl::StrCat("the newest ", job.settings->keep_last,
                                  " verified checkpoints are newer (checkpoint.keep_last)")});
    }
    for (uint64_t checkpoint_id : job.checkpoints) {
      const Checkpoint* checkpoint = snapshot.FindCheckpoint(checkpoint_id);
      const bool going =
          std::find(superfluous.begin(), superfluous.end(), checkpoint) != superfluous.end();
      if (checkpoint->state != CheckpointState::kCommitted || going ||
          cared_for.count(checkpoint_id) != 0 || checkpoint->retry_at > now) {
        continue;
      }
      care.actions.push_back({.kind = AssignmentKind::kVerify,
                              .checkpoint_id = checkpoint_id,
                              .worker = worker->name,
                              .reason = "committed, not verified yet"});
    }
  }
  return care;
}

absl::Duration NextRetentionRetry(const Snapshot& snapshot, absl::Duration now) {
  absl::Duration next = absl::InfiniteDuration();
  for (uint64_t id : *snapshot.retention_jobs) {
    for (uint64_t checkpoint_id : snapshot.FindJob(id)->checkpoints) {
      const Checkpoint* checkpoint = snapshot.FindCheckpoint(checkpoint_id);
      if (checkpoint->retry_at > now) next = std::min(next, checkpoint->retry_at);
    }
  }
  return next;
}

}  // namespace muster::controller
