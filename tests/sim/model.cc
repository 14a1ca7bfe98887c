#include "tests/sim/model.h"

#include <algorithm>

namespace muster::sim {

void Model::OnSubmitted(const Key& key, const mc::JobSettings& settings,
                        const std::optional<mc::ArrayRange>& array, uint64_t job_id) {
  const uint32_t jobs = array.has_value() ? array->size() : 1;
  const auto [it, is_new] = submits_.emplace(key, Submit{settings.spec, job_id, jobs});
  if (!is_new && it->second.job_id != job_id) {
    trace_.Fail("one request started two jobs: ", it->second.job_id, " and ", job_id);
  }
  for (uint64_t id = job_id; id < job_id + jobs; ++id) {
    const auto [owner, is_first] = keys_.emplace(id, key);
    if (!is_first && owner->second != key) {
      trace_.Fail("job ", id, " was given to two requests");
    }
  }
  if (is_new) jobs_ += jobs;
  queue_.OnSubmitted(job_id, settings.scheduling, array);
  for (uint64_t id = job_id; id < job_id + jobs; ++id) budgets_.OnSubmitted(id, settings.restart);
}

void Model::OnCordoned(const std::string& worker, bool cordoned) {
  if (cordoned) {
    cordoned_.insert(worker);
  } else {
    cordoned_.erase(worker);
  }
}

void Model::CheckPlacement(const mc::Snapshot& snapshot, const mc::Snapshot& before,
                           const mc::Job& job, absl::Time now) const {
  queue_.CheckPlacement(snapshot, before, job, now);
  budgets_.CheckPlacement(snapshot, job);
  const auto held = held_.find(job.id);
  if (held != held_.end() && job.attempt > held->second) {
    trace_.Fail("job ", job.id, " is held or suspended, but attempt ", job.attempt, " was placed");
  }
  for (const mc::Rank& rank : job.current->ranks) {
    if (cordoned_.count(rank.worker) != 0) {
      trace_.Fail("job ", job.id, " was placed on ", rank.worker, ", which is drained");
    }
  }
}

void Model::OnQuota(const std::string& project, uint32_t slots, uint32_t slots_of_user) {
  quotas_[project] = {slots, slots_of_user};
}

void Model::OnCancelled(uint64_t job_id) { cancels_.insert(job_id); }

void Model::OnCommitted(uint64_t job_id, uint32_t attempt, int64_t step) {
  commits_.insert({job_id, attempt, step});
}

void Model::OnTerm(const std::string& machine, uint64_t term) {
  uint64_t& seen = terms_[machine];
  if (term < seen) trace_.Fail(machine, " welcomed term ", term, " after term ", seen);
  seen = std::max(seen, term);
  term_ = std::max(term_, term);
}

void Model::OnRankSucceeded(uint64_t job_id, uint32_t attempt, uint32_t rank) {
  succeeded_.insert({job_id, attempt, rank});
}

void Model::Check(const mc::Snapshot& snapshot) const {
  for (const auto& [key, submit] : submits_) {
    for (uint64_t id = submit.job_id; id < submit.job_id + submit.jobs; ++id) {
      const mc::Job* job = snapshot.FindJob(id);
      if (job == nullptr) return trace_.Fail("job ", id, " was acknowledged and is gone");
      // The key stands with the first job of an array.
      const bool same_key = id != submit.job_id || job->idempotency_key == key.second;
      if (job->owner != key.first || !same_key || job->settings->spec != submit.spec) {
        return trace_.Fail("job ", id, " is not what was submitted");
      }
    }
  }
  queue_.Check(snapshot);
  for (const uint64_t id : cancels_) {
    const mc::Job* job = snapshot.FindJob(id);
    const bool ends = job != nullptr && (job->state == mc::JobState::kStopping ||
                                         job->state == mc::JobState::kCancelled);
    if (!ends) {
      return trace_.Fail("job ", id, " was cancelled and is ",
                         job == nullptr ? "gone" : mc::JobStateName(job->state));
    }
  }
  CheckQuotas(snapshot);
  CheckCommits(snapshot);
  snapshot.jobs.ForEach([this](const mc::Job& job) {
    if (job.state == mc::JobState::kSucceeded) CheckSuccess(job);
  });
}

void Model::CheckQuotas(const mc::Snapshot& snapshot) const {
  for (const auto& [project, quota] : quotas_) {
    uint32_t held = 0;
    std::map<std::string, uint32_t> of_user;
    snapshot.jobs.ForEach([&](const mc::Job& job) {
      if (job.settings->project != project || !job.has_live_attempt()) return;
      for (const mc::Rank& rank : job.current->ranks) {
        if (!rank.holds_slots) continue;
        held += rank.slots.size();
        of_user[job.owner] += rank.slots.size();
      }
    });
    if (held > quota.slots) {
      trace_.Fail("project ", project, " holds ", held, " slots; its quota is ", quota.slots);
    }
    for (const auto& [user, slots] : of_user) {
      if (slots > quota.slots_of_user) {
        trace_.Fail("user ", user, " holds ", slots, " slots in project ", project);
      }
    }
  }
}

const mc::Checkpoint* Model::FindRow(const mc::Snapshot& snapshot, const Commit& commit) const {
  const mc::Job* job = snapshot.FindJob(commit.job_id);
  if (job == nullptr) return nullptr;
  for (const uint64_t id : job->checkpoints) {
    const mc::Checkpoint* row = snapshot.FindCheckpoint(id);
    if (row->step == commit.step && row->attempt == commit.attempt && !row->path.empty()) {
      return row;
    }
  }
  return nullptr;
}

void Model::CheckCommits(const mc::Snapshot& snapshot) const {
  for (const Commit& commit : commits_) {
    const mc::Checkpoint* row = FindRow(snapshot, commit);
    if (row == nullptr || row->state == mc::CheckpointState::kWriting) {
      return trace_.Fail("job ", commit.job_id, ": step ", commit.step, " of attempt ",
                         commit.attempt, " was called committed and has no row");
    }
    const Storage::Folder* folder = storage_.Find(row->path);
    const bool condemned =
        row->state == mc::CheckpointState::kCorrupt || row->state == mc::CheckpointState::kDeleted;
    if (condemned && folder != nullptr && folder->whole && !folder->given_up) {
      return trace_.Fail("job ", commit.job_id, ": ", row->path, " is whole but called ",
                         mc::CheckpointStateName(row->state));
    }
  }
}

void Model::CheckSuccess(const mc::Job& job) const {
  if (job.current == nullptr) return trace_.Fail("job ", job.id, " succeeded without an attempt");
  for (const mc::Rank& rank : job.current->ranks) {
    if (succeeded_.count({job.id, job.attempt, rank.rank}) == 0) {
      return trace_.Fail("job ", job.id, " is called succeeded, but rank ", rank.rank,
                         " of attempt ", job.attempt, " never finished");
    }
  }
}

int64_t Model::NewestPromisedStep(const mc::Snapshot& snapshot, uint64_t job_id) const {
  int64_t newest = 0;
  for (const Commit& commit : commits_) {
    if (commit.job_id != job_id) continue;
    const mc::Checkpoint* row = FindRow(snapshot, commit);
    if (row == nullptr) continue;
    const Storage::Folder* folder = storage_.Find(row->path);
    const bool promised = folder != nullptr && folder->whole && !folder->given_up;
    if (promised) newest = std::max(newest, commit.step);
  }
  return newest;
}

}  // namespace muster::sim
