#include "controller/api/calls/known_jobs.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "controller/model/draft.h"
#include "controller/model/job_links.h"

namespace muster::controller {
namespace {

// What the reference says, for people.
std::string NameOf(const v1::JobRef& ref) {
  if (ref.has_id()) return absl::StrCat("job ", ref.id());
  if (ref.has_task()) return absl::StrCat("job ", ref.task().array_id(), "_", ref.task().index());
  return absl::StrCat("job `", CutUtf8(ref.name(), 128), "`");
}

}  // namespace

absl::StatusOr<ArchivedJob> KnownJobs::Read(uint64_t id) {
  if (const auto known = read_.find(id); known != read_.end()) return known->second;
  if (read_.size() >= kMostRead) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this refers to more than ", kMostRead,
                     " jobs that ended long ago, whole arrays counted: ask for fewer at once"));
  }
  MUSTER_ASSIGN_OR_RETURN(ArchivedJob archived, engine_.history().Find(id));
  read_.emplace(id, archived);
  return archived;
}

absl::StatusOr<const Job*> KnownJobs::Find(uint64_t id) {
  const Job* job = snapshot_->FindJob(id);
  if (job == nullptr && snapshot_->IsForgottenOrArchived(id)) {
    const absl::StatusOr<ArchivedJob> archived = Read(id);
    if (absl::IsNotFound(archived.status())) return nullptr;
    MUSTER_RETURN_IF_ERROR(archived.status());
    AddToSnapshot({*archived});
    job = snapshot_->FindJob(id);
  }
  if (job != nullptr) found_.insert(id);
  return job;
}

void KnownJobs::AddToSnapshot(const std::vector<ArchivedJob>& archived) {
  Draft draft(*snapshot_);
  for (const ArchivedJob& job : archived) draft.RestoreJob(job);
  snapshot_ = draft.Finish();
}

absl::Status KnownJobs::LoadTasks(uint64_t array_id) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<uint64_t> tasks, engine_.history().TasksOf(array_id));
  std::vector<ArchivedJob> others;
  for (uint64_t id : tasks) {
    if (snapshot_->FindJob(id) != nullptr) continue;
    MUSTER_ASSIGN_OR_RETURN(ArchivedJob task, Read(id));
    others.push_back(std::move(task));
  }
  if (!others.empty()) AddToSnapshot(others);
  return absl::OkStatus();
}

absl::StatusOr<const Checkpoint*> KnownJobs::FindCheckpoint(uint64_t id) {
  if (const Checkpoint* checkpoint = snapshot_->FindCheckpoint(id)) return checkpoint;
  MUSTER_ASSIGN_OR_RETURN(const uint64_t job_id, engine_.history().OfCheckpoint(id));
  if (job_id == 0) return nullptr;
  MUSTER_RETURN_IF_ERROR(Find(job_id).status());
  return snapshot_->FindCheckpoint(id);
}

absl::StatusOr<const Job*> KnownJobs::FindNamed(const std::string& name) {
  const Job* here = snapshot_->FindJobByName(name);
  MUSTER_ASSIGN_OR_RETURN(const uint64_t archived, engine_.history().NewestOfName(name));
  MUSTER_ASSIGN_OR_RETURN(const Job* newest,
                          Find(std::max(here == nullptr ? 0 : here->id, archived)));
  if (newest == nullptr || may_read_ == nullptr || may_read_(newest->settings->project)) {
    return newest;
  }
  // Whoever may not read it need not know that it is there.
  found_.erase(newest->id);
  here = FindReadableHere(name);
  if (here != nullptr) found_.insert(here->id);
  return here;
}

const Job* KnownJobs::FindReadableHere(const std::string& name) const {
  constexpr int kMostSeen = 100'000;  // a fraction of a second
  uint64_t id = snapshot_->jobs.last_id() + 1;
  for (int seen = 0; seen < kMostSeen && (id = snapshot_->jobs.PreviousId(id)) != 0; ++seen) {
    const Job* job = snapshot_->jobs.Find(id);
    if (job->settings->name == name && may_read_(job->settings->project)) return job;
  }
  return nullptr;
}

// The tasks of an array have the ids after its first one.
absl::StatusOr<const Job*> KnownJobs::FindTask(const v1::JobRef::ArrayTask& task) {
  MUSTER_ASSIGN_OR_RETURN(const Job* first, Find(task.array_id()));
  if (first == nullptr || task.array_id() == 0 || first->array.array_id != task.array_id() ||
      task.index() < first->array.index) {
    return nullptr;
  }
  MUSTER_ASSIGN_OR_RETURN(const Job* job,
                          Find(task.array_id() + (task.index() - first->array.index)));
  const bool same = job != nullptr && job->array.array_id == task.array_id();
  return same ? job : nullptr;
}

absl::StatusOr<const Job*> KnownJobs::Find(const v1::JobRef& ref) {
  const Job* job = nullptr;
  switch (ref.by_case()) {
    case v1::JobRef::kId: {
      MUSTER_ASSIGN_OR_RETURN(job, Find(ref.id()));
      break;
    }
    case v1::JobRef::kName: {
      MUSTER_ASSIGN_OR_RETURN(job, FindNamed(ref.name()));
      break;
    }
    case v1::JobRef::kTask: {
      MUSTER_ASSIGN_OR_RETURN(job, FindTask(ref.task()));
      break;
    }
    case v1::JobRef::BY_NOT_SET:
      return absl::InvalidArgumentError("job: give its id or its name");
  }
  if (job == nullptr) return NoSuchJob(ref);
  return job;
}

absl::Status KnownJobs::NoSuchJob(const v1::JobRef& ref) const {
  if (may_read_ != nullptr) {
    return absl::NotFoundError(absl::StrCat(
        NameOf(ref), ": no such job, or none that you may read; `muster ls` lists them, but for ",
        "those that ended long ago and were forgotten"));
  }
  if (snapshot_->IsForgottenOrArchived(ref.has_task() ? ref.task().array_id() : ref.id())) {
    return absl::NotFoundError(absl::StrCat(
        NameOf(ref), ": no such job any more: it ended long ago and was forgotten (musterd's ",
        "--forget-ended-after and --max-ended-jobs), or history.db was lost since"));
  }
  return absl::NotFoundError(absl::StrCat(NameOf(ref), ": no such job; `muster ls` lists them"));
}

absl::Status KnownJobs::LoadReferred(SubmitJob& event) {
  History& history = engine_.history();
  event.key_sought_at = engine_.SinceBoot();
  if (!event.idempotency_key.empty() && history.jobs() > 0) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t same, history.OfKey(event.owner, event.idempotency_key));
    if (same != 0) MUSTER_RETURN_IF_ERROR(Find(same).status());
  }
  MUSTER_RETURN_IF_ERROR(LoadWaitedFor(event.settings->scheduling));
  if (!event.resume.has_value()) return absl::OkStatus();
  const ResumeRequest& resume = *event.resume;
  if (resume.automatic) return LoadResumable(*event.settings);
  if (!resume.job_name.empty()) return FindNamed(resume.job_name).status();
  if (!resume.task.has_value()) return Find(resume.job_id).status();
  v1::JobRef::ArrayTask task;
  task.set_array_id(resume.job_id);
  task.set_index(*resume.task);
  return FindTask(task).status();
}

absl::Status KnownJobs::LoadWaitedFor(const SchedulingSettings& scheduling) {
  for (const SchedulingSettings::Dependency& other : scheduling.after) {
    MUSTER_RETURN_IF_ERROR(Find(other.job_id).status());
    if (here_->FindJob(other.job_id) != nullptr) continue;
    // Whether an array has ended well is told by all of its tasks.
    MUSTER_RETURN_IF_ERROR(LoadTasks(other.job_id));
  }
  return absl::OkStatus();
}

absl::Status KnownJobs::LoadResumable(const JobSettings& settings) {
  History& history = engine_.history();
  uint64_t archived = std::numeric_limits<int64_t>::max();
  // The rows of a job that was restored are stale.
  do {
    MUSTER_ASSIGN_OR_RETURN(archived,
                            history.NewestResumable(settings.project, settings.name, archived));
  } while (here_->FindJob(archived) != nullptr);
  return Find(std::max(NewestToResume(*here_, settings), archived)).status();
}

absl::StatusOr<RestoreList> KnownJobs::WhatToRestore() {
  RestoreList list;
  auto here = std::make_shared<RestoreJobs>();
  for (uint64_t id : found_) {
    if (here_->FindJob(id) != nullptr) {
      here->needed.insert(id);
      continue;
    }
    MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<const RestoreJobs> restore, RestoreOf(id));
    if (std::find(list.begin(), list.end(), restore) == list.end()) {
      list.push_back(std::move(restore));
    }
  }
  if (!here->needed.empty()) list.push_back(std::move(here));
  return list;
}

absl::StatusOr<std::shared_ptr<const RestoreJobs>> KnownJobs::RestoreOf(uint64_t id) {
  if (const auto known = restores_.find(id); known != restores_.end()) return known->second;
  History& history = engine_.history();
  auto restore = std::make_shared<RestoreJobs>();
  std::map<uint64_t, ArchivedJob> jobs;
  std::set<uint64_t> arrays;
  std::set<uint64_t> pending = {id};
  while (!pending.empty()) {
    const uint64_t next = pending.extract(pending.begin()).value();
    if (jobs.count(next) != 0 || here_->FindJob(next) != nullptr) continue;
    MUSTER_ASSIGN_OR_RETURN(ArchivedJob archived, Read(next));
    const uint64_t array_id = archived.job->array.array_id;
    if (array_id != 0 && arrays.insert(array_id).second) {
      MUSTER_ASSIGN_OR_RETURN(const std::vector<uint64_t> tasks, history.TasksOf(array_id));
      pending.insert(tasks.begin(), tasks.end());
    }
    for (uint64_t source : archived.job->settings->resume_from) {
      const Checkpoint* checkpoint = here_->FindCheckpoint(source);
      if (checkpoint != nullptr) {
        restore->needed.insert(checkpoint->job_id);
        continue;
      }
      MUSTER_ASSIGN_OR_RETURN(const uint64_t job_id, history.OfCheckpoint(source));
      if (job_id != 0) pending.insert(job_id);
    }
    jobs.emplace(next, std::move(archived));
  }
  const uint64_t array_id = jobs.at(id).job->array.array_id;
  restores_[id] = restore;
  // In this order each comes after what it begins from, which was submitted before it.
  for (auto& [job_id, archived] : jobs) {
    if (array_id != 0 && archived.job->array.array_id == array_id) restores_[job_id] = restore;
    restore->jobs.push_back(std::move(archived));
  }
  return std::shared_ptr<const RestoreJobs>(std::move(restore));
}

}  // namespace muster::controller
