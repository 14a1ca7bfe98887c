#include "controller/policy/checkpoints/retention_rules.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/model/kept_checkpoints.h"

namespace muster::controller {
namespace {

using Checkpoints = std::vector<const Checkpoint*>;

// What of the job may go now, newest first.
Checkpoints Superfluous(const Snapshot& snapshot, const Job& job,
                        const std::set<uint64_t>& counted_on) {
  Checkpoints superfluous = LetGo(snapshot, job);
  std::erase_if(superfluous, [&](const Checkpoint* checkpoint) {
    return MayBeLoading(job, checkpoint->id) || counted_on.count(checkpoint->id) != 0;
  });
  std::sort(superfluous.begin(), superfluous.end(), Newer);
  return superfluous;
}

// The workers that may reread or delete checkpoints, by how much of that each has to do, with what
// is given out here: so one run spreads its work over all of them. Listed at the first call.
class Verifiers {
 public:
  explicit Verifiers(const Snapshot& snapshot) : snapshot_(snapshot) {}

  // The least busy one of the job's pools that sees its checkpoint root, which has one thing more
  // to do from here on; another one than `other_than`. Null: none.
  const Worker* Next(const Job& job, const std::string& other_than = "") {
    return Choose(job, [&](const Worker& worker) { return worker.name != other_than; });
  }

  // Likewise, but for rereading a checkpoint: a worker that rereads nothing of the job yet. The one
  // that failed to read it is chosen only if there is no other.
  const Worker* NextReader(const Job& job, const std::string& failed_by) {
    const auto is_free = [&](const Worker& candidate) {
      return reading_.count({job.id, candidate.id}) == 0;
    };
    const Worker* worker = Choose(job, [&](const Worker& candidate) {
      return is_free(candidate) && candidate.name != failed_by;
    });
    if (worker == nullptr && !failed_by.empty()) worker = Choose(job, is_free);
    if (worker != nullptr) reading_.insert({job.id, worker->id});
    return worker;
  }

 private:
  using Entry = std::pair<uint32_t, uint64_t>;  // what it has to do, its id

  template <typename Fits>
  const Worker* Choose(const Job& job, const Fits& fits) {
    if (!std::exchange(listed_, true)) List();
    std::set<Entry>* pool_of_chosen = nullptr;
    std::set<Entry>::iterator chosen;
    for (const JobNeeds::Pool& pool : job.settings->needs.pools) {
      const auto it = by_pool_.find(pool.name);
      if (it == by_pool_.end() || !IsSeen(pool.name, it->second, job.settings->needs)) continue;
      const auto fit = std::find_if(it->second.begin(), it->second.end(), [&](const Entry& entry) {
        const Worker& worker = *snapshot_.workers.Find(entry.second);
        return fits(worker) && SeesRoot(worker, job.settings->needs);
      });
      if (fit == it->second.end()) continue;
      if (pool_of_chosen == nullptr || *fit < *chosen) {
        pool_of_chosen = &it->second;
        chosen = fit;
      }
    }
    if (pool_of_chosen == nullptr) return nullptr;
    auto entry = pool_of_chosen->extract(chosen);
    ++entry.value().first;
    const uint64_t id = entry.value().second;
    pool_of_chosen->insert(std::move(entry));
    return snapshot_.workers.Find(id);
  }

  // Whether any worker of the pool sees the root. Worked out once a run: where a root is away,
  // every checkpoint of every job in it would walk over all workers otherwise.
  bool IsSeen(const std::string& pool, const std::set<Entry>& workers, const JobNeeds& needs) {
    const auto [it, is_new] = seen_.try_emplace({pool, needs.root});
    if (is_new) {
      it->second = std::any_of(workers.begin(), workers.end(), [&](const Entry& entry) {
        return SeesRoot(*snapshot_.workers.Find(entry.second), needs);
      });
    }
    return it->second;
  }

  void List() {
    std::map<std::string, uint32_t> busy;
    snapshot_.outbox.ForEach([&](const OutboxRow& row) {
      if (row.checkpoint_id == 0) return;
      ++busy[row.worker];
      const Checkpoint* checkpoint = snapshot_.FindCheckpoint(row.checkpoint_id);
      const Worker* worker = snapshot_.FindWorker(row.worker);
      const bool known = checkpoint != nullptr && worker != nullptr;
      if (row.kind == AssignmentKind::kVerify && known) {
        reading_.insert({checkpoint->job_id, worker->id});
      }
    });
    snapshot_.workers.ForEach([&](const Worker& worker) {
      const bool fit =
          worker.pulse.connected && worker.presence() == Presence::kReady && !worker.draining;
      if (!fit) return;
      const auto it = busy.find(worker.name);
      by_pool_[worker.facts.pool].insert({it == busy.end() ? 0 : it->second, worker.id});
    });
  }

  const Snapshot& snapshot_;
  bool listed_ = false;
  std::map<std::string, std::set<Entry>> by_pool_;            // none empty
  std::map<std::pair<std::string, std::string>, bool> seen_;  // by pool and root
  // A job, and the id of a worker that reads one of its checkpoints.
  std::set<std::pair<uint64_t, uint64_t>> reading_;
};

// One run over all jobs.
class RetentionPlanner {
 public:
  RetentionPlanner(const Snapshot& snapshot, absl::Duration now)
      : snapshot_(snapshot),
        now_(now),
        assigned_(CheckpointsWithWork(snapshot)),
        needed_by_others_(NeededByOthers(snapshot)),
        verifiers_(snapshot) {}

  AssignCheckpointWork Run() {
    for (uint64_t id : *snapshot_.retention_jobs) {
      if (full()) break;
      const Job& job = *snapshot_.FindJob(id);
      const Checkpoints superfluous = Superfluous(snapshot_, job, needed_by_others_);
      Delete(job, superfluous);
      Read(job, superfluous);
    }
    return std::move(plan_);
  }

 private:
  bool full() const { return plan_.actions.size() >= kMaxCheckpointActions; }
  bool IsDue(const Checkpoint& checkpoint) const {
    return checkpoint.retry_at <= now_ && assigned_.count(checkpoint.id) == 0;
  }

  void Delete(const Job& job, const Checkpoints& superfluous) {
    for (const Checkpoint* checkpoint : superfluous) {
      if (full()) return;
      if (!IsDue(*checkpoint)) continue;
      Assign(AssignmentKind::kDelete, *checkpoint, Another(job, *checkpoint),
             checkpoint->removed_by.empty()
                 ? absl::StrCat("the newest ", job.settings->keep_last,
                                " verified checkpoints are newer (checkpoint.keep_last)")
                 : absl::StrCat("removed by ", checkpoint->removed_by));
    }
  }

  // One in doubt is read again at once. Of those only unread a worker gets one of a job at a time,
  // the newest first; older ones are deleted unread once enough newer ones are verified. If all
  // were given out at once, those of a job that saves faster than they are read would fill the
  // workers' queues, and all of them would stay meanwhile.
  void Read(const Job& job, const Checkpoints& superfluous) {
    bool has_reader = true;
    for (const Checkpoint* checkpoint : Unsettled(job, superfluous)) {
      if (full()) return;
      if (checkpoint->doubt.has_value()) {
        Assign(AssignmentKind::kVerify, *checkpoint, Another(job, *checkpoint),
               absl::StrCat("worker ", checkpoint->doubt->worker,
                            " could not read it: ", checkpoint->doubt->message));
        continue;
      }
      if (!has_reader) continue;
      const Worker* reader = verifiers_.NextReader(job, checkpoint->failed_by);
      has_reader = reader != nullptr;
      Assign(AssignmentKind::kVerify, *checkpoint, reader, "committed, not verified yet");
    }
  }

  // What is to be read now and stays, newest first.
  Checkpoints Unsettled(const Job& job, const Checkpoints& superfluous) const {
    Checkpoints unsettled;
    for (uint64_t id : job.checkpoints) {
      const Checkpoint* checkpoint = snapshot_.FindCheckpoint(id);
      const bool doubted = checkpoint->restorable() && checkpoint->doubt.has_value();
      const bool unread = checkpoint->state == CheckpointState::kCommitted;
      if (!(doubted || unread) || !IsDue(*checkpoint)) continue;
      if (std::binary_search(superfluous.begin(), superfluous.end(), checkpoint, Newer)) continue;
      unsettled.push_back(checkpoint);
    }
    std::sort(unsettled.begin(), unsettled.end(), Newer);
    return unsettled;
  }

  // A worker that found it bad, or could not read or delete it, is asked again only where no other
  // can be.
  const Worker* Another(const Job& job, const Checkpoint& checkpoint) {
    const std::string& before =
        checkpoint.doubt.has_value() ? checkpoint.doubt->worker : checkpoint.failed_by;
    const Worker* worker = verifiers_.Next(job, before);
    return worker == nullptr && !before.empty() ? verifiers_.Next(job) : worker;
  }

  // Null: nobody can do it now.
  void Assign(AssignmentKind kind, const Checkpoint& checkpoint, const Worker* worker,
              std::string reason) {
    if (worker == nullptr) return;
    plan_.actions.push_back({.kind = kind,
                             .checkpoint_id = checkpoint.id,
                             .worker = worker->name,
                             .reason = std::move(reason)});
  }

  const Snapshot& snapshot_;
  const absl::Duration now_;
  const std::set<uint64_t> assigned_;
  const std::set<uint64_t> needed_by_others_;
  Verifiers verifiers_;
  AssignCheckpointWork plan_;
};

}  // namespace

std::set<uint64_t> NeededByOthers(const Snapshot& snapshot) {
  std::set<uint64_t> ids;
  for (uint64_t job_id : *snapshot.resuming_jobs) {
    for (uint64_t id : snapshot.FindJob(job_id)->settings->resume_from) {
      // A broken one helps nobody.
      if (snapshot.FindCheckpoint(id)->restorable()) ids.insert(id);
    }
  }
  return ids;
}

std::set<uint64_t> CheckpointsWithWork(const Snapshot& snapshot) {
  std::set<uint64_t> ids;
  snapshot.outbox.ForEach([&ids](const OutboxRow& row) {
    if (row.checkpoint_id != 0) ids.insert(row.checkpoint_id);
  });
  return ids;
}

bool MayBeLoading(const Job& job, uint64_t checkpoint_id) {
  if (!job.has_live_attempt() || job.current->reached_running) return false;
  const std::vector<uint64_t>& resume = job.current->resume;
  return std::find(resume.begin(), resume.end(), checkpoint_id) != resume.end();
}

const Worker* PickVerifier(const Snapshot& snapshot, const Job& job,
                           const std::string& other_than) {
  return Verifiers(snapshot).Next(job, other_than);
}

bool AnotherIsAwaited(const Snapshot& snapshot, const Job& job, const std::string& other_than) {
  const JobNeeds& needs = job.settings->needs;
  bool awaited = false;
  snapshot.workers.ForEach([&](const Worker& worker) {
    const bool in_pools =
        std::any_of(needs.pools.begin(), needs.pools.end(),
                    [&](const JobNeeds::Pool& pool) { return pool.name == worker.facts.pool; });
    // An older agent does not report roots.
    const bool will_say =
        worker.pulse.roots == nullptr || worker.pulse.roots->count(needs.root) == 0;
    const bool silent =
        !worker.pulse.connected || worker.presence() == Presence::kSuspect || will_say;
    awaited |= in_pools && silent && !worker.identity.empty() && worker.name != other_than &&
               !worker.draining && !worker.lost;
  });
  return awaited;
}

AssignCheckpointWork PlanRetention(const Snapshot& snapshot, absl::Duration now) {
  if (snapshot.retention_jobs->empty()) return {};
  return RetentionPlanner(snapshot, now).Run();
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
