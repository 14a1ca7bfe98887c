#include "controller/model/snapshot.h"

#include <algorithm>

#include "common/base/check.h"

namespace muster::controller {

Snapshot::Snapshot()
    : worker_ids(std::make_shared<const std::map<std::string, uint64_t>>()),
      active_jobs(std::make_shared<const std::vector<uint64_t>>()),
      retention_jobs(std::make_shared<const std::vector<uint64_t>>()),
      projects(std::make_shared<const std::map<std::string, std::shared_ptr<const Project>>>()),
      use(std::make_shared<const std::map<std::string, std::shared_ptr<const ProjectUse>>>()),
      resuming_jobs(std::make_shared<const std::vector<uint64_t>>()),
      dependent_jobs(std::make_shared<const std::vector<uint64_t>>()),
      roots_in_use(std::make_shared<const std::map<std::string, RootInUse>>()),
      archived_time(std::make_shared<const std::map<std::string, ArchivedTime>>()) {}

const Job* Snapshot::FindJobByName(absl::string_view name) const {
  const NamedJobs* named = by_name.Find(name);
  return named == nullptr ? nullptr : jobs.Find(named->newest);
}

absl::Duration LearnedRunTime::Longest() const {
  return *std::max_element(runs.begin(), runs.end());
}

std::string RunTimeKey(const JobSettings& settings) {
  return settings.project + '/' + settings.name;
}

const Worker* Snapshot::FindWorker(const std::string& name) const {
  const auto it = worker_ids->find(name);
  return it == worker_ids->end() ? nullptr : workers.Find(it->second);
}

const Project* Snapshot::FindProject(const std::string& name) const {
  const auto it = projects->find(name);
  return it == projects->end() ? nullptr : it->second.get();
}

ProjectUse Snapshot::UseOf(const std::string& project) const {
  const auto it = use->find(project);
  return it == use->end() ? ProjectUse() : *it->second;
}

std::string Snapshot::IdentityOf(const std::string& root) const {
  const RootIdentity* known = roots.Find(root);
  return known == nullptr ? "" : known->identity;
}

bool SeesRoot(const Worker& worker, const JobNeeds& needs) {
  if (needs.root.empty()) return true;
  if (worker.pulse.roots == nullptr) return false;
  const auto view = worker.pulse.roots->find(needs.root);
  return view != worker.pulse.roots->end() && view->second.seen;
}

bool CanUseRoot(const Worker& worker, const JobNeeds& needs) {
  if (!SeesRoot(worker, needs)) return false;
  return needs.root.empty() || worker.pulse.roots->at(needs.root).message.empty();
}

const Attempt* FindAttempt(const Job& job, uint32_t number) {
  if (job.current != nullptr && job.current->number == number) return job.current.get();
  return number >= 1 && number <= job.past.size() ? job.past[number - 1].get() : nullptr;
}

const Rank* FailedRank(const Attempt& attempt) {
  const bool known =
      attempt.failed_rank >= 0 && static_cast<size_t>(attempt.failed_rank) < attempt.ranks.size();
  return known ? &attempt.ranks[attempt.failed_rank] : nullptr;
}

Use UseOf(const Job& job) {
  Use use{.slots = 0, .queued = job.state == JobState::kPending ? 1u : 0u};
  if (!job.has_live_attempt()) return use;
  for (const Rank& rank : job.current->ranks) {
    if (rank.holds_slots) use.slots += rank.slots.size();
  }
  return use;
}

const Rank* FindLiveRank(const Snapshot& snapshot, const Fence& fence, uint32_t rank,
                         absl::string_view worker, absl::string_view incarnation) {
  const Job* job = snapshot.FindJob(fence.job_id);
  if (job == nullptr || !job->has_live_attempt()) return nullptr;
  const Attempt& attempt = *job->current;
  if (attempt.number != fence.attempt || attempt.generation != fence.generation) return nullptr;
  if (rank >= attempt.ranks.size()) return nullptr;
  const Rank& found = attempt.ranks[rank];
  if (HasEnded(found.state) || found.worker != worker || found.incarnation != incarnation)
    return nullptr;
  return &found;
}

void HoldSlots(WorkerPulse& pulse, const JobNeeds& needs, uint64_t job_id, uint32_t attempt,
               const Rank& rank) {
  bool first = true;
  for (uint32_t slot : rank.slots) {
    pulse.holders[slot] = {.job_id = job_id,
                           .attempt = attempt,
                           .rank = rank.rank,
                           .cpus = first ? needs.cpus_per_rank : 0,
                           .memory_bytes = first ? needs.memory_per_rank : 0};
    first = false;
  }
}

}  // namespace muster::controller
