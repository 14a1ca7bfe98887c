#include "tests/sim/model.h"

#include <algorithm>
#include <limits>
#include <memory>

namespace muster::sim {
namespace {

constexpr uint32_t kNoBound = std::numeric_limits<uint32_t>::max();

// The widest bounds of all that may hold.
Model::Quotas MostOf(const std::vector<Model::Quotas>& may_hold) {
  const auto wider = [](std::optional<uint32_t> a, std::optional<uint32_t> b) {
    return a.has_value() && b.has_value() ? std::max(a, b) : std::nullopt;
  };
  Model::Quotas most = may_hold.front();
  for (const Model::Quotas& quotas : may_hold) {
    most.slots = std::max(most.slots, quotas.slots);
    most.slots_of_user = std::max(most.slots_of_user, quotas.slots_of_user);
    most.queued = wider(most.queued, quotas.queued);
    most.queued_of_user = wider(most.queued_of_user, quotas.queued_of_user);
  }
  return most;
}

// Whether somebody had it queued since `old` (a submit, a requeue, a resume), and it still is.
bool WasLetIn(const mc::Job& job, const mc::Job* old) {
  if (job.state != mc::JobState::kPending) return false;
  if (old == nullptr) return true;
  return std::any_of(job.events.begin() + static_cast<ptrdiff_t>(old->events.size()),
                     job.events.end(), [](const std::shared_ptr<const mc::JobEvent>& event) {
                       const bool was_out =
                           mc::IsTerminal(event->from) || event->from == mc::JobState::kSuspended;
                       return was_out && event->to == mc::JobState::kPending;
                     });
}

}  // namespace

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

void Model::OnQuotasAsked(const std::string& project, const Quotas& quotas) {
  std::vector<Quotas>& may_hold = quotas_[project];
  // Before the first ones nothing is bounded.
  if (may_hold.empty()) may_hold.push_back({.slots = kNoBound, .slots_of_user = kNoBound});
  may_hold.push_back(quotas);
}

void Model::OnQuotas(const std::string& project, const Quotas& quotas) {
  quotas_[project] = {quotas};
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

void Model::Check(const mc::Snapshot& snapshot) {
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
  CheckSlotQuotas(snapshot);
  CheckCommits(snapshot);
  snapshot.jobs.ForEach([this](const mc::Job& job) {
    if (job.state == mc::JobState::kSucceeded) CheckSuccess(job);
  });
}

// What is held may be more than a bound that was lowered, but it does not grow then.
void Model::CheckSlotQuotas(const mc::Snapshot& snapshot) {
  if (quotas_.empty()) return;
  std::map<std::pair<std::string, std::string>, uint32_t> held;
  snapshot.jobs.ForEach([&](const mc::Job& job) {
    const std::string& project = job.settings->project;
    if (quotas_.count(project) == 0 || !job.has_live_attempt()) return;
    for (const mc::Rank& rank : job.current->ranks) {
      if (!rank.holds_slots) continue;
      held[{project, ""}] += rank.slots.size();
      held[{project, job.owner}] += rank.slots.size();
    }
  });
  for (const auto& [of, slots] : held) {
    const auto& [project, user] = of;
    const Quotas most = MostOf(quotas_.at(project));
    const uint32_t bound = user.empty() ? most.slots : most.slots_of_user;
    const auto last = slots_held_.find(of);
    const bool grew = last == slots_held_.end() || slots > last->second;
    if (slots <= bound || !grew) continue;
    trace_.Fail(user.empty() ? "" : absl::StrCat("user ", user, " in "), "project ", project,
                " holds ", slots, " slots; the quota is ", bound);
  }
  slots_held_ = std::move(held);
}

void Model::CheckQueued(const mc::Snapshot& snapshot, const mc::Snapshot& before) const {
  if (quotas_.empty()) return;
  std::set<std::pair<std::string, std::string>> joined;  // project, user
  snapshot.jobs.ForEachChange(before.jobs, [&](uint64_t, const mc::Job* old, const mc::Job* job) {
    if (job == nullptr || !WasLetIn(*job, old)) return;
    joined.insert({job->settings->project, ""});
    joined.insert({job->settings->project, job->owner});
  });
  for (const auto& [project, user] : joined) {
    const auto quotas = quotas_.find(project);
    if (quotas == quotas_.end()) continue;
    const Quotas most = MostOf(quotas->second);
    const std::optional<uint32_t> bound = user.empty() ? most.queued : most.queued_of_user;
    if (!bound.has_value()) continue;
    uint32_t queued = 0;
    snapshot.jobs.ForEach([&](const mc::Job& job) {
      const bool its = job.settings->project == project && (user.empty() || job.owner == user);
      if (!its || job.state != mc::JobState::kPending) return;
      // Others came back from an attempt, which asks nobody, maybe after the ones that were let in.
      const mc::Job* old = before.FindJob(job.id);
      const bool waits_on =
          old != nullptr && old->state == mc::JobState::kPending && old->attempt == job.attempt;
      queued += waits_on || WasLetIn(job, old);
    });
    if (queued <= *bound) continue;
    trace_.Fail(user.empty() ? "" : absl::StrCat("user ", user, " in "), "project ", project,
                " has ", queued, " jobs in the queue when more are let in; the quota is ", *bound);
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
    const bool called_bad =
        row->state == mc::CheckpointState::kCorrupt || row->state == mc::CheckpointState::kDeleted;
    if (called_bad && folder != nullptr && folder->whole && !folder->given_up) {
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
