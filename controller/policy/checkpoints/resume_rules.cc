#include "controller/policy/checkpoints/resume_rules.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/model/job_links.h"
#include "controller/model/kept_checkpoints.h"

namespace muster::controller {
namespace {

constexpr char kKey[] = "checkpoint.resume_from: ";

std::string Named(const Job& job) {
  return absl::StrCat("job ", job.id, " (", job.settings->name, ")");
}

// The tasks of an array have the ids after its first one.
const Job* FindTask(const Snapshot& snapshot, uint64_t array_id, uint32_t index) {
  const Job* first = snapshot.FindJob(array_id);
  if (first == nullptr || first->array.array_id != array_id || index < first->array.index) {
    return nullptr;
  }
  const Job* task = snapshot.FindJob(array_id + (index - first->array.index));
  return task != nullptr && task->array.array_id == array_id ? task : nullptr;
}

absl::StatusOr<const Job*> FindNamed(const Draft& draft, const ResumeRequest& request) {
  const Job* job = nullptr;
  std::string name;
  if (!request.job_name.empty()) {
    job = draft.FindJobByName(request.job_name);
    name = absl::StrCat("job `", request.job_name, "`");
  } else if (request.task.has_value()) {
    job = FindTask(draft.view(), request.job_id, *request.task);
    name = absl::StrCat("job ", request.job_id, "_", *request.task);
  } else {
    job = draft.view().FindJob(request.job_id);
    name = absl::StrCat("job ", request.job_id);
  }
  if (job != nullptr) return job;
  return absl::NotFoundError(
      absl::StrCat(kKey, name,
                   ": no such job; `muster ls` lists them, and `auto` takes the newest "
                   "of this job's own name that has a checkpoint"));
}

// `going`: those that are being deleted; null: they count, too.
bool MayBeginFrom(const Checkpoint& checkpoint, const std::set<uint64_t>* going) {
  return going == nullptr ? checkpoint.restorable() : MayBeRestored(checkpoint, *going);
}

// Those that a job may begin from, newest first.
std::vector<const Checkpoint*> Restorable(const Snapshot& snapshot, const Job& job,
                                          const std::set<uint64_t>* going) {
  std::vector<const Checkpoint*> restorable;
  for (uint64_t id : job.checkpoints) {
    const Checkpoint* checkpoint = snapshot.FindCheckpoint(id);
    if (MayBeginFrom(*checkpoint, going)) restorable.push_back(checkpoint);
  }
  std::sort(restorable.begin(), restorable.end(), Newer);
  return restorable;
}

std::vector<uint64_t> IdsOfNewest(const std::vector<const Checkpoint*>& newest_first) {
  std::vector<uint64_t> ids;
  for (const Checkpoint* checkpoint : newest_first) {
    if (ids.size() == kMaxResumeCandidates) break;
    ids.push_back(checkpoint->id);
  }
  return ids;
}

// The newest best one that is older than the newest few; null: none. An attempt that goes on from
// one of those keeps it as its best one, if none of them is better, and finds it by its row alone.
const Checkpoint* OlderBest(const std::vector<const Checkpoint*>& newest_first) {
  for (size_t i = kMaxResumeCandidates; i < newest_first.size(); ++i) {
    if (newest_first[i]->best) return newest_first[i];
  }
  return nullptr;
}

std::string StateText(const Checkpoint& checkpoint) {
  return absl::StrCat(
      CheckpointStateName(checkpoint.state),
      checkpoint.message.empty() ? "" : absl::StrCat(" (", checkpoint.message, ")"));
}

// The newest that was ever committed; null: none.
const Checkpoint* NewestCommitted(const Snapshot& snapshot, const Job& job) {
  const Checkpoint* newest = nullptr;
  for (uint64_t id : job.checkpoints) {
    const Checkpoint* checkpoint = snapshot.FindCheckpoint(id);
    // A row without a path has never been there.
    const bool was_there = !checkpoint->path.empty();
    if (was_there && (newest == nullptr || Newer(checkpoint, newest))) newest = checkpoint;
  }
  return newest;
}

bool IsWritingOne(const Snapshot& snapshot, const Job& job) {
  return std::any_of(job.checkpoints.begin(), job.checkpoints.end(), [&](uint64_t id) {
    return snapshot.FindCheckpoint(id)->state == CheckpointState::kWriting;
  });
}

// The refusal for a job without a checkpoint that can be restored.
absl::Status NoneToRestore(const Snapshot& snapshot, const Job& job) {
  const Checkpoint* newest = NewestCommitted(snapshot, job);
  std::string why = "it has saved none";
  if (newest != nullptr) {
    why = newest->restorable()
              ? absl::StrCat("its last, of step ", newest->step, ", is being deleted")
              : absl::StrCat("its newest, of step ", newest->step, ", is ", StateText(*newest));
  } else if (IsWritingOne(snapshot, job)) {
    why = "its first is being written: try again once that is committed";
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "refused: ", kKey, Named(job), " has no checkpoint that can be restored: ", why,
      "; name another job, or leave it out to begin from nothing (`muster ckpt ls ", job.id, "`)"));
}

// The steps that there are, for a message to somebody who named another one.
std::string StepsText(const std::vector<const Checkpoint*>& newest_first) {
  std::vector<int64_t> steps;
  for (const Checkpoint* checkpoint : newest_first) {
    if (steps.size() == kMaxResumeCandidates) break;
    steps.push_back(checkpoint->step);
  }
  return absl::StrJoin(steps, ", ");
}

absl::StatusOr<std::vector<uint64_t>> FindStep(const Snapshot& snapshot, const Job& job,
                                               const std::vector<const Checkpoint*>& restorable,
                                               int64_t step) {
  for (const Checkpoint* checkpoint : restorable) {
    if (checkpoint->step == step) return std::vector<uint64_t>{checkpoint->id};
  }
  const std::string there_are = absl::StrCat("; there are those of step ", StepsText(restorable),
                                             " (`muster ckpt ls ", job.id, "`)");
  for (auto id = job.checkpoints.rbegin(); id != job.checkpoints.rend(); ++id) {
    const Checkpoint& checkpoint = *snapshot.FindCheckpoint(*id);
    if (checkpoint.step != step || checkpoint.path.empty()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("refused: ", kKey, Named(job), ": its checkpoint of step ", step,
                     " cannot be restored: it is ",
                     checkpoint.restorable() ? "being deleted" : StateText(checkpoint), there_are));
  }
  return absl::NotFoundError(
      absl::StrCat(kKey, Named(job), " has no checkpoint of step ", step, there_are));
}

// The newest job of the settings' project and name that has any.
std::vector<uint64_t> FindAutomatic(const Draft& draft, const JobSettings& settings,
                                    const std::set<uint64_t>& going) {
  for (uint64_t id : draft.ResumableJobs(RunTimeKey(settings))) {
    const Snapshot& snapshot = draft.view();
    const auto restorable = Restorable(snapshot, *snapshot.FindJob(id), &going);
    if (!restorable.empty()) return IdsOfNewest(restorable);
  }
  return {};
}

}  // namespace

absl::StatusOr<std::vector<uint64_t>> ResolveResume(const Draft& draft, const JobSettings& settings,
                                                    const ResumeRequest& request) {
  const std::set<uint64_t> going = BeingDeleted(draft.view());
  if (request.automatic) return FindAutomatic(draft, settings, going);
  const absl::StatusOr<const Job*> found = FindNamed(draft, request);
  if (!found.ok()) return found.status();
  const Job& job = **found;
  const std::vector<const Checkpoint*> restorable = Restorable(draft.view(), job, &going);
  if (restorable.empty()) return NoneToRestore(draft.view(), job);
  switch (request.which) {
    case ResumeRequest::Which::kNewestFew:
      return IdsOfNewest(restorable);
    case ResumeRequest::Which::kNewest:
      return std::vector<uint64_t>{restorable.front()->id};
    case ResumeRequest::Which::kStep:
      return FindStep(draft.view(), job, restorable, request.step);
    case ResumeRequest::Which::kBest:
      break;
  }
  const auto best = std::find_if(restorable.begin(), restorable.end(),
                                 [](const Checkpoint* checkpoint) { return checkpoint->best; });
  if (best != restorable.end()) return std::vector<uint64_t>{(*best)->id};
  return absl::NotFoundError(absl::StrCat(
      kKey, Named(job), " has no best checkpoint that can be restored; there are those of step ",
      StepsText(restorable), ", and `", job.id, "@newest`"));
}

std::vector<uint64_t> ResumeCandidates(const Snapshot& snapshot, const Job& job) {
  const bool none = job.checkpoints.empty() && job.settings->resume_from.empty();
  if (none) return {};
  const std::set<uint64_t> going = BeingDeleted(snapshot);
  const auto candidates = [&](const std::set<uint64_t>* without) {
    const std::vector<const Checkpoint*> own = Restorable(snapshot, job, without);
    std::vector<uint64_t> ids = IdsOfNewest(own);
    if (const Checkpoint* best = OlderBest(own)) ids.push_back(best->id);
    for (uint64_t id : job.settings->resume_from) {
      if (MayBeginFrom(*snapshot.FindCheckpoint(id), without)) ids.push_back(id);
    }
    return ids;
  };
  std::vector<uint64_t> ids = candidates(&going);
  // One that is being deleted may still be there, and no attempt begins from nothing instead.
  return ids.empty() ? candidates(nullptr) : ids;
}

std::optional<std::string> WhyNothingToResume(const Snapshot& snapshot, const Job& job) {
  const std::vector<uint64_t>& sources = job.settings->resume_from;
  const Checkpoint* own = NewestCommitted(snapshot, job);
  if (own == nullptr && sources.empty()) return std::nullopt;
  if (!ResumeCandidates(snapshot, job).empty()) return std::nullopt;
  if (sources.empty()) {
    return absl::StrCat("none of its checkpoints can be restored: the newest, of step ", own->step,
                        ", is ", StateText(*own),
                        "; it does not begin from nothing by itself: submit it anew for that");
  }
  const Checkpoint& first = *snapshot.FindCheckpoint(sources.front());
  return absl::StrCat(
      "it was to begin from ", ResumeText(snapshot, sources), ", which is ", StateText(first),
      sources.size() == 1 ? "" : absl::StrCat(", as are the ", sources.size() - 1, " after it"),
      ", and has none of its own that can be restored; submit it anew from another one, or without "
      "checkpoint.resume_from");
}

std::string ResumeText(const Snapshot& snapshot, const std::vector<uint64_t>& resume_from) {
  const Checkpoint& first = *snapshot.FindCheckpoint(resume_from.front());
  return absl::StrCat(Named(*snapshot.FindJob(first.job_id)), ", step ", first.step);
}

}  // namespace muster::controller
