#include "controller/policy/retention_rules.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster::controller {
namespace {

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

// The workers that may look after checkpoints, by how much of that each has to do, with what is
// given out here: so that one look spreads its work over all of them. Made at the first question.
class Caretakers {
 public:
  explicit Caretakers(const Snapshot& snapshot) : snapshot_(snapshot) {}

  // The least busy one of the job's pools that sees its checkpoint root, which has one thing more to
  // do from here on; another one than `other_than`. Null: none.
  const Worker* Next(const Job& job, const std::string& other_than = "") {
    if (!std::exchange(listed_, true)) List();
    std::set<Entry>* pool_of_chosen = nullptr;
    std::set<Entry>::iterator chosen;
    for (const JobNeeds::Pool& pool : job.settings->needs.pools) {
      const auto it = by_pool_.find(pool.name);
      if (it == by_pool_.end()) continue;
      const auto fit = std::find_if(it->second.begin(), it->second.end(), [&](const Entry& entry) {
        const Worker& worker = *snapshot_.workers.Find(entry.second);
        return worker.name != other_than && SeesRoot(worker, job.settings->needs);
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

 private:
  using Entry = std::pair<uint32_t, uint64_t>;  // what it has to do, its id

  void List() {
    std::map<std::string, uint32_t> busy;
    for (const auto& [seq, row] : *snapshot_.outbox) {
      if (row.checkpoint_id != 0) ++busy[row.worker];
    }
    snapshot_.workers.ForEach([&](const Worker& worker) {
      const bool fit =
          worker.connected && worker.presence == Presence::kReady && !worker.draining;
      if (!fit) return;
      const auto it = busy.find(worker.name);
      by_pool_[worker.facts.pool].insert({it == busy.end() ? 0 : it->second, worker.id});
    });
  }

  const Snapshot& snapshot_;
  bool listed_ = false;
  std::map<std::string, std::set<Entry>> by_pool_;  // none empty
};

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

std::set<uint64_t> BeingCaredFor(const Snapshot& snapshot) {
  std::set<uint64_t> ids;
  for (const auto& [seq, row] : *snapshot.outbox) {
    if (row.checkpoint_id != 0) ids.insert(row.checkpoint_id);
  }
  return ids;
}

bool MayBeLoading(const Job& job, uint64_t checkpoint_id) {
  if (!job.has_live_attempt() || job.current->reached_running) return false;
  const std::vector<uint64_t>& resume = job.current->resume;
  return std::find(resume.begin(), resume.end(), checkpoint_id) != resume.end();
}

const Worker* ChooseCaretaker(const Snapshot& snapshot, const Job& job,
                              const std::string& other_than) {
  return Caretakers(snapshot).Next(job, other_than);
}

CareForCheckpoints PlanRetention(const Snapshot& snapshot, absl::Duration now) {
  CareForCheckpoints care;
  if (snapshot.retention_jobs->empty()) return care;
  const std::set<uint64_t> cared_for = BeingCaredFor(snapshot);
  const std::set<uint64_t> counted_on = CountedOnByOthers(snapshot);
  Caretakers caretakers(snapshot);
  const auto act = [&](AssignmentKind kind, const Job& job, const Checkpoint& checkpoint,
                       std::string reason) {
    const bool due = cared_for.count(checkpoint.id) == 0 && checkpoint.retry_at <= now;
    if (!due || care.actions.size() >= kMaxCareActions) return;
    // Who spoke against it is asked again only where nobody else can be.
    const std::string doubter = checkpoint.doubt.has_value() ? checkpoint.doubt->worker : "";
    const Worker* worker = caretakers.Next(job, doubter);
    if (worker == nullptr && !doubter.empty()) worker = caretakers.Next(job);
    if (worker == nullptr) return;
    care.actions.push_back({.kind = kind,
                            .checkpoint_id = checkpoint.id,
                            .worker = worker->name,
                            .reason = std::move(reason)});
  };
  for (uint64_t id : *snapshot.retention_jobs) {
    if (care.actions.size() >= kMaxCareActions) break;
    const Job& job = *snapshot.FindJob(id);
    const std::vector<const Checkpoint*> superfluous = Superfluous(snapshot, job, counted_on);
    for (const Checkpoint* checkpoint : superfluous) {
      act(AssignmentKind::kDelete, job, *checkpoint,
          absl::StrCat("the newest ", job.settings->keep_last,
                       " verified checkpoints are newer (checkpoint.keep_last)"));
    }
    for (uint64_t checkpoint_id : job.checkpoints) {
      const Checkpoint* checkpoint = snapshot.FindCheckpoint(checkpoint_id);
      const bool going =
          std::find(superfluous.begin(), superfluous.end(), checkpoint) != superfluous.end();
      const bool doubted = checkpoint->restorable() && checkpoint->doubt.has_value();
      const bool due = checkpoint->state == CheckpointState::kCommitted || doubted;
      if (!due || going) continue;
      act(AssignmentKind::kVerify, job, *checkpoint,
          doubted ? absl::StrCat("worker ", checkpoint->doubt->worker,
                                 " could not read it: ", checkpoint->doubt->message)
                  : "committed, not verified yet");
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
