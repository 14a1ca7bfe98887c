#include "controller/api/calls/known_jobs.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"

namespace muster::controller {
namespace {

// What the reference says, for people.
std::string NameOf(const v1::JobRef& ref) {
  if (ref.has_id()) return absl::StrCat("job ", ref.id());
  if (ref.has_task()) return absl::StrCat("job ", ref.task().array_id(), "_", ref.task().index());
  return absl::StrCat("job `", CutUtf8(ref.name(), 128), "`");
}

}  // namespace

absl::StatusOr<const Job*> KnownJobs::Find(uint64_t id) {
  if (const Job* job = snapshot_->FindJob(id)) return job;
  if (!snapshot_->HasLeft(id)) return nullptr;
  absl::StatusOr<ArchivedJob> archived = engine_.history().Find(id);
  if (absl::IsNotFound(archived.status())) return nullptr;
  MUSTER_RETURN_IF_ERROR(archived.status());
  for (uint64_t source : archived->job->settings->resume_from) {
    MUSTER_RETURN_IF_ERROR(FindCheckpoint(source).status());
  }
  Add(*archived);
  return snapshot_->FindJob(id);
}

void KnownJobs::Add(const ArchivedJob& archived) {
  if (extended_ == nullptr) extended_ = std::make_shared<Snapshot>(*snapshot_);
  extended_->jobs.Put(archived.job->id, archived.job);
  for (const auto& checkpoint : archived.checkpoints) {
    extended_->checkpoints.Put(checkpoint->id, checkpoint);
  }
  snapshot_ = extended_;
  found_.jobs.push_back(archived);
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
  if (here != nullptr && here->id > archived) return here;
  return archived == 0 ? here : Find(archived);
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
  bool was_there = false;
  switch (ref.by_case()) {
    case v1::JobRef::kId: {
      MUSTER_ASSIGN_OR_RETURN(job, Find(ref.id()));
      was_there = snapshot_->HasLeft(ref.id());
      break;
    }
    case v1::JobRef::kName: {
      MUSTER_ASSIGN_OR_RETURN(job, FindNamed(ref.name()));
      break;
    }
    case v1::JobRef::kTask: {
      MUSTER_ASSIGN_OR_RETURN(job, FindTask(ref.task()));
      was_there = snapshot_->HasLeft(ref.task().array_id());
      break;
    }
    case v1::JobRef::BY_NOT_SET:
      return absl::InvalidArgumentError("job: give its id or its name");
  }
  if (job != nullptr) return job;
  if (was_there) {
    return absl::NotFoundError(absl::StrCat(
        NameOf(ref), ": no such job any more: it ended long ago and was forgotten (musterd's ",
        "--forget-ended-after and --max-ended-jobs)"));
  }
  return absl::NotFoundError(absl::StrCat(NameOf(ref), ": no such job; `muster ls` lists them"));
}

absl::Status KnownJobs::FindReferred(const SubmitJob& event) {
  History& history = engine_.history();
  if (history.jobs() == 0) return absl::OkStatus();
  if (!event.idempotency_key.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t same, history.OfKey(event.owner, event.idempotency_key));
    if (same != 0) MUSTER_RETURN_IF_ERROR(Find(same).status());
  }
  for (const SchedulingSettings::Dependency& other : event.settings->scheduling.after) {
    MUSTER_RETURN_IF_ERROR(Find(other.job_id).status());
  }
  if (!event.resume.has_value()) return absl::OkStatus();
  const ResumeRequest& resume = *event.resume;
  if (resume.automatic) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t saver,
                            history.NewestSaver(event.settings->project, event.settings->name));
    const auto* savers = snapshot_->savers.Find(RunTimeKey(*event.settings));
    const bool is_newest = savers == nullptr || (*savers)->back() < saver;
    return saver != 0 && is_newest ? Find(saver).status() : absl::OkStatus();
  }
  if (!resume.job_name.empty()) return FindNamed(resume.job_name).status();
  if (!resume.task.has_value()) return Find(resume.job_id).status();
  v1::JobRef::ArrayTask task;
  task.set_array_id(resume.job_id);
  task.set_index(*resume.task);
  return FindTask(task).status();
}

absl::Status KnownJobs::Restore(std::vector<Engine::Posted>& posts) {
  std::set<uint64_t> arrays;
  for (const ArchivedJob& archived : found_.jobs) {
    if (archived.job->array.array_id != 0) arrays.insert(archived.job->array.array_id);
  }
  for (uint64_t array : arrays) {
    for (uint64_t id = array;; ++id) {
      MUSTER_ASSIGN_OR_RETURN(const Job* task, Find(id));
      if (task == nullptr || task->array.array_id != array) break;
    }
  }
  // A job after the array's last one may have been found, too: it does no harm. What a restore
  // refuses the event after it hears.
  if (!found_.jobs.empty()) posts.push_back({found_, [](const EventResult&) {}});
  return absl::OkStatus();
}

}  // namespace muster::controller
