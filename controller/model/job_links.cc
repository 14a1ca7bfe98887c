#include "controller/model/job_links.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/model/ledger_rules.h"

namespace muster::controller {

std::set<uint64_t> SourcesOf(const Snapshot& snapshot, const Job& job) {
  std::set<uint64_t> sources;
  for (uint64_t id : job.settings->resume_from) {
    const Checkpoint* checkpoint = snapshot.FindCheckpoint(id);
    if (checkpoint != nullptr) sources.insert(checkpoint->job_id);
  }
  return sources;
}

void CountSources(Snapshot& snapshot, const Job& job, int sign) {
  for (uint64_t source : SourcesOf(snapshot, job)) {
    const std::string key = absl::StrCat(source);
    const uint32_t* known = snapshot.begun_from.Find(key);
    const uint32_t count = (known == nullptr ? 0 : *known) + static_cast<uint32_t>(sign);
    if (count == 0) {
      snapshot.begun_from.Erase(key);
    } else {
      snapshot.begun_from.Put(key, count);
    }
  }
}

bool IsBegunFrom(const Snapshot& snapshot, uint64_t job_id) {
  return snapshot.begun_from.Find(absl::StrCat(job_id)) != nullptr;
}

void CountName(Snapshot& snapshot, const Job& job) {
  const NamedJobs* known = snapshot.by_name.Find(job.settings->name);
  NamedJobs named = known == nullptr ? NamedJobs() : *known;
  named.newest = std::max(named.newest, job.id);
  ++named.count;
  snapshot.by_name.Put(job.settings->name, named);
}

void ForgetName(Snapshot& snapshot, const Job& job) {
  const std::string& name = job.settings->name;
  const NamedJobs* known = snapshot.by_name.Find(name);
  if (known == nullptr) return;
  if (known->count <= 1) return snapshot.by_name.Erase(name);
  NamedJobs named = *known;
  --named.count;
  if (named.newest == job.id) {
    // Searches backwards for the newest job that is left of this name. An array leaves from its
    // last task to its first, so that for its tasks the very next step back finds one.
    const Job* older = nullptr;
    do {
      named.newest = snapshot.jobs.PreviousId(named.newest);
      older = snapshot.jobs.Find(named.newest);
    } while (older != nullptr && older->settings->name != name);
  }
  snapshot.by_name.Put(name, named);
}

void LearnRunTime(Snapshot& snapshot, const Job& job) {
  absl::Duration ran;
  for (const auto& attempt : job.past) ran += Lasted(*attempt, attempt->held_until);
  if (job.current != nullptr) ran += Lasted(*job.current, job.current->held_until);
  if (ran <= absl::ZeroDuration()) return;  // the clock was set back
  const std::string key = RunTimeKey(*job.settings);
  const LearnedRunTime* known = snapshot.run_times.Find(key);
  LearnedRunTime learned = known == nullptr ? LearnedRunTime() : *known;
  std::copy_backward(learned.runs.begin(), learned.runs.end() - 1, learned.runs.end());
  learned.runs.front() = ran;
  ++learned.jobs;
  snapshot.run_times.Put(key, learned);
}

void ForgetRunTime(Snapshot& snapshot, const Job& job) {
  if (job.state != JobState::kSucceeded) return;
  const std::string key = RunTimeKey(*job.settings);
  const LearnedRunTime* known = snapshot.run_times.Find(key);
  if (known == nullptr) return;
  if (known->jobs <= 1) return snapshot.run_times.Erase(key);
  LearnedRunTime learned = *known;
  --learned.jobs;
  snapshot.run_times.Put(key, learned);
}

void RecallRunTime(Snapshot& snapshot, const Job& job) {
  const std::string key = RunTimeKey(*job.settings);
  const LearnedRunTime* known = snapshot.run_times.Find(key);
  if (known == nullptr) return LearnRunTime(snapshot, job);
  LearnedRunTime learned = *known;
  ++learned.jobs;
  snapshot.run_times.Put(key, learned);
}

void AddResumable(Snapshot& snapshot, const Job& job) {
  const std::string key = RunTimeKey(*job.settings);
  const std::shared_ptr<const std::vector<uint64_t>>* known = snapshot.resumable_jobs.Find(key);
  const bool is_in =
      known != nullptr && std::binary_search((*known)->begin(), (*known)->end(), job.id);
  if (is_in) return;  // as with all of its checkpoints but the first
  auto resumable_jobs = known == nullptr ? std::vector<uint64_t>() : **known;
  resumable_jobs.insert(std::lower_bound(resumable_jobs.begin(), resumable_jobs.end(), job.id),
                        job.id);
  snapshot.resumable_jobs.Put(
      key, std::make_shared<const std::vector<uint64_t>>(std::move(resumable_jobs)));
}

void RemoveResumable(Snapshot& snapshot, const Job& job) {
  const std::string key = RunTimeKey(*job.settings);
  const std::shared_ptr<const std::vector<uint64_t>>* known = snapshot.resumable_jobs.Find(key);
  if (known == nullptr || !std::binary_search((*known)->begin(), (*known)->end(), job.id)) return;
  auto resumable_jobs = **known;
  std::erase(resumable_jobs, job.id);
  if (resumable_jobs.empty()) {
    snapshot.resumable_jobs.Erase(key);
  } else {
    snapshot.resumable_jobs.Put(
        key, std::make_shared<const std::vector<uint64_t>>(std::move(resumable_jobs)));
  }
}

std::set<uint64_t> BeingDeleted(const Snapshot& snapshot) {
  std::set<uint64_t> ids;
  snapshot.outbox.ForEach([&ids](const OutboxRow& row) {
    if (row.kind == AssignmentKind::kDelete) ids.insert(row.checkpoint_id);
  });
  return ids;
}

bool MayBeRestored(const Checkpoint& checkpoint, const std::set<uint64_t>& going) {
  return checkpoint.restorable() && checkpoint.removed_by.empty() &&
         going.count(checkpoint.id) == 0;
}

uint64_t NewestToResume(const Snapshot& snapshot, const JobSettings& settings) {
  const auto* resumable_jobs = snapshot.resumable_jobs.Find(RunTimeKey(settings));
  if (resumable_jobs == nullptr) return 0;
  const std::set<uint64_t> going = BeingDeleted(snapshot);
  const auto may_be_restored = [&](uint64_t id) {
    return MayBeRestored(*snapshot.FindCheckpoint(id), going);
  };
  const auto newest =
      std::find_if((*resumable_jobs)->rbegin(), (*resumable_jobs)->rend(), [&](uint64_t job_id) {
        const std::vector<uint64_t>& ids = snapshot.FindJob(job_id)->checkpoints;
        return std::any_of(ids.begin(), ids.end(), may_be_restored);
      });
  return newest == (*resumable_jobs)->rend() ? 0 : *newest;
}

}  // namespace muster::controller
