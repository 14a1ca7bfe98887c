// How a job leaves a draft and comes back: its rows, and its part in all that is kept over all
// jobs.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "controller/model/array_tally.h"
#include "controller/model/draft.h"
#include "controller/model/job_links.h"

namespace muster::controller {
std::set<uint64_t> Draft::EditedJobs() const {
  std::set<uint64_t> edited;
  for (const auto& [id, job] : jobs_) edited.insert(id);
  for (const auto& [id, checkpoint] : checkpoints_) edited.insert(checkpoint->job_id);
  for (const ArchivedJob& restored : restored_jobs_) edited.insert(restored.job->id);
  return edited;
}

void Draft::AddToTotals(const Job& job, int sign) {
  CountSources(*next_, job, -sign);
  if (archived_time_ == nullptr) {
    archived_time_ = std::make_shared<std::map<std::string, ArchivedTime>>(*next_->archived_time);
    next_->archived_time = archived_time_;
  }
  const std::string& project = job.settings->project;
  if (archived_time_->size() < kMaxArchivedTimes || archived_time_->count(project) != 0) {
    ArchivedTime& time = (*archived_time_)[project];
    for (int i = 0; i < kTimeLabelCount; ++i) time.held.of[i] += sign * job.ledger.settled.of[i];
    time.queued += sign * job.ledger.settled_queued;
  }
  next_->archived_events += sign * static_cast<int64_t>(job.events.size());
  next_->archived_until = std::max(next_->archived_until, job.ledger.until);
}

void Draft::ArchiveJob(uint64_t id, uint64_t put) {
  const std::shared_ptr<const Job> job = next_->jobs.Share(id);
  MUSTER_CHECK(job != nullptr && IsTerminal(job->state) && jobs_.count(id) == 0,
               "a job was archived that has not ended, or is being changed");
  ForgetName(*next_, *job);
  ForgetRunTime(*next_, *job);
  RemoveResumable(*next_, *job);
  ArrayTallies(*next_).Forget(*job);
  AddToTotals(*job, +1);
  for (const auto& event : job->events) next_->events.Erase(event->sequence);
  for (uint64_t checkpoint : job->checkpoints) next_->checkpoints.Erase(checkpoint);
  next_->jobs.Erase(id);
  next_->archived_put = std::max(next_->archived_put, put);
  archived_jobs_.push_back(job);
}

void Draft::RestoreJob(const ArchivedJob& archived) {
  const Job& job = *archived.job;
  MUSTER_CHECK(IsTerminal(job.state) && next_->IsForgottenOrArchived(job.id),
               "a job was restored that is here, or never was");
  for (const auto& checkpoint : archived.checkpoints) {
    next_->checkpoints.Put(checkpoint->id, checkpoint);
  }
  for (const auto& event : job.events) next_->events.Put(event->sequence, event);
  next_->jobs.Put(job.id, archived.job);
  CountName(*next_, job);
  if (job.state == JobState::kSucceeded) RecallRunTime(*next_, job);
  const bool saved = std::any_of(archived.checkpoints.begin(), archived.checkpoints.end(),
                                 [](const auto& checkpoint) { return checkpoint->restorable(); });
  if (saved) AddResumable(*next_, job);
  ArrayTallies(*next_).Count(nullptr, job);
  AddToTotals(job, -1);
  if (!job.idempotency_key.empty()) new_keys_.emplace(KeyOf(job), &job);
  restored_jobs_.push_back(archived);
}

void Draft::AddArchived(ChangeSet& changes) const {
  changes.jobs_archived = archived_jobs_;
  changes.archived = {.last_job = next_->jobs.last_id(),
                      .last_checkpoint = next_->checkpoints.last_id(),
                      .last_event = next_->last_event,
                      .put = next_->archived_put,
                      .events = next_->archived_events,
                      .until = next_->archived_until,
                      .time = {}};
  changes.jobs_restored = restored_jobs_;
  const auto add_time = [&](const std::string& project) {
    const auto time = next_->archived_time->find(project);
    if (time != next_->archived_time->end()) changes.archived.time[project] = time->second;
  };
  for (const auto& job : archived_jobs_) add_time(job->settings->project);
  for (const ArchivedJob& restored : restored_jobs_) add_time(restored.job->settings->project);
}

}  // namespace muster::controller
