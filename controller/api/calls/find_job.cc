#include "controller/api/calls/find_job.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"

namespace muster::controller {
namespace {

// The tasks of an array have the ids after its first one.
const Job* FindTask(const Snapshot& snapshot, const v1::JobRef::ArrayTask& task) {
  const Job* first = snapshot.FindJob(task.array_id());
  if (first == nullptr || task.array_id() == 0 || first->array.array_id != task.array_id()) {
    return nullptr;
  }
  if (task.index() < first->array.index) return nullptr;
  const Job* job = snapshot.FindJob(task.array_id() + (task.index() - first->array.index));
  const bool same = job != nullptr && job->array.array_id == task.array_id();
  return same ? job : nullptr;
}

// Whether a job of that id was there once: ids are not given twice.
bool WasThere(const Snapshot& snapshot, const v1::JobRef& ref) {
  return snapshot.WasForgotten(ref.has_task() ? ref.task().array_id() : ref.id());
}

}  // namespace

absl::StatusOr<const Job*> FindJob(const Snapshot& snapshot, const v1::JobRef& ref) {
  const Job* job = nullptr;
  std::string name;
  switch (ref.by_case()) {
    case v1::JobRef::kId:
      name = absl::StrCat("job ", ref.id());
      job = snapshot.FindJob(ref.id());
      break;
    case v1::JobRef::kName:
      name = absl::StrCat("job `", CutUtf8(ref.name(), 128), "`");
      job = snapshot.FindJobByName(ref.name());
      break;
    case v1::JobRef::kTask:
      name = absl::StrCat("job ", ref.task().array_id(), "_", ref.task().index());
      job = FindTask(snapshot, ref.task());
      break;
    case v1::JobRef::BY_NOT_SET:
      return absl::InvalidArgumentError("job: give its id or its name");
  }
  if (job == nullptr && WasThere(snapshot, ref)) {
    return absl::NotFoundError(absl::StrCat(
        name, ": no such job any more: it ended long ago and was forgotten (musterd's ",
        "--forget-ended-after and --max-ended-jobs)"));
  }
  if (job == nullptr) {
    return absl::NotFoundError(absl::StrCat(name, ": no such job; `muster ls` lists them"));
  }
  return job;
}

}  // namespace muster::controller
