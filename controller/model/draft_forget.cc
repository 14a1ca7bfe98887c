// How a draft forgets a job: its rows, and its part in all that is kept over all jobs.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "controller/model/array_tally.h"
#include "controller/model/draft.h"
#include "controller/model/job_links.h"

namespace muster::controller {
namespace {

void RemoveSaver(Snapshot& snapshot, const Job& job) {
  const std::string key = RunTimeKey(*job.settings);
  const std::shared_ptr<const std::vector<uint64_t>>* known = snapshot.savers.Find(key);
  if (known == nullptr || !std::binary_search((*known)->begin(), (*known)->end(), job.id)) return;
  auto savers = **known;
  std::erase(savers, job.id);
  if (savers.empty()) {
    snapshot.savers.Erase(key);
  } else {
    snapshot.savers.Put(key, std::make_shared<const std::vector<uint64_t>>(std::move(savers)));
  }
}

// What was learned goes with the last job that it was learned from.
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

}  // namespace

std::set<uint64_t> Draft::EditedJobs() const {
  std::set<uint64_t> edited;
  for (const auto& [id, job] : jobs_) edited.insert(id);
  for (const auto& [id, checkpoint] : checkpoints_) edited.insert(checkpoint->job_id);
  return edited;
}

void Draft::ForgetJob(uint64_t id) {
  const std::shared_ptr<const Job> job = next_->jobs.Share(id);
  MUSTER_CHECK(job != nullptr && IsTerminal(job->state) && jobs_.count(id) == 0,
               "a job was forgotten that has not ended, or is being changed");
  ForgetName(*job);
  ForgetRunTime(*next_, *job);
  RemoveSaver(*next_, *job);
  CountSources(*next_, *job, -1);
  ArrayTallies(*next_).Forget(*job);
  if (forgotten_time_ == nullptr) {
    forgotten_time_ =
        std::make_shared<std::map<std::string, ForgottenTime>>(*next_->forgotten_time);
    next_->forgotten_time = forgotten_time_;
  }
  const std::string& project = job->settings->project;
  if (forgotten_time_->size() < kMaxForgottenTimes || forgotten_time_->count(project) != 0) {
    ForgottenTime& time = (*forgotten_time_)[project];
    time.held += job->ledger.settled;
    time.queued += job->ledger.settled_queued;
  }
  next_->forgotten_events += job->events.size();
  next_->forgotten_until = std::max(next_->forgotten_until, job->ledger.until);
  for (const auto& event : job->events) next_->events.Erase(event->sequence);
  for (uint64_t checkpoint : job->checkpoints) next_->checkpoints.Erase(checkpoint);
  next_->jobs.Erase(id);
  forgotten_jobs_.push_back(job);
}

void Draft::ForgetName(const Job& job) {
  const std::string& name = job.settings->name;
  const NamedJobs* known = next_->by_name.Find(name);
  if (known == nullptr) return;
  if (known->count <= 1) return next_->by_name.Erase(name);
  NamedJobs named = *known;
  --named.count;
  if (named.newest == job.id) {
    // Looks backwards for the newest job that is left of this name. An array is forgotten from its
    // last task to its first, so that for its tasks the very next step back finds one.
    const Job* older = nullptr;
    do {
      named.newest = next_->jobs.PreviousId(named.newest);
      older = next_->jobs.Find(named.newest);
    } while (older != nullptr && older->settings->name != name);
  }
  next_->by_name.Put(name, named);
}

void Draft::AddForgotten(ChangeSet& changes) const {
  changes.jobs_forgotten = forgotten_jobs_;
  changes.forgotten = {.last_job = next_->jobs.last_id(),
                       .last_checkpoint = next_->checkpoints.last_id(),
                       .last_event = next_->last_event,
                       .events = next_->forgotten_events,
                       .until = next_->forgotten_until,
                       .time = {}};
  for (const auto& job : forgotten_jobs_) {
    const std::string& project = job->settings->project;
    const auto time = next_->forgotten_time->find(project);
    if (time != next_->forgotten_time->end()) changes.forgotten.time[project] = time->second;
  }
}

}  // namespace muster::controller
