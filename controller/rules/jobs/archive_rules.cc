// Jobs that have ended leave the model, and come back (policy/archive/archivable_jobs).
#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/policy/archive/archivable_jobs.h"
#include "controller/rules/rules.h"

namespace muster::controller {
namespace {

// Whether the job and its checkpoints are as they were when they were archived.
bool IsUnchanged(const Snapshot& snapshot, const ArchivedJob& archived) {
  return snapshot.jobs.Find(archived.job->id) == archived.job.get() &&
         std::all_of(archived.checkpoints.begin(), archived.checkpoints.end(),
                     [&snapshot](const auto& checkpoint) {
                       return snapshot.FindCheckpoint(checkpoint->id) == checkpoint.get();
                     });
}

bool MayLeave(const Snapshot& snapshot, const std::set<uint64_t>& needed,
              const ArchiveJobs::Group& group) {
  if (group.empty()) return false;
  const std::optional<EndedJobs> ended = EvaluateEnded(snapshot, needed, group.front().job->id);
  return ended.has_value() && ended->size() == group.size() &&
         std::all_of(group.begin(), group.end(), [&snapshot](const ArchivedJob& archived) {
           return IsUnchanged(snapshot, archived);
         });
}

// Whether another job was submitted with the key of this one, after a history.db was lost.
bool IsKeyTaken(const Draft& draft, const Job& job, const RuleContext& context) {
  if (job.idempotency_key.empty()) return false;
  const auto known = context.idempotency->find({job.owner, job.idempotency_key});
  if (known != context.idempotency->end()) return known->second != job.id;
  const Job* added = draft.FindNewJob(job.owner, job.idempotency_key);
  return added != nullptr && added->id != job.id;
}

// `returning`: checkpoints that come back with it.
absl::Status MayReturn(const Draft& draft, const ArchivedJob& archived,
                       const std::set<uint64_t>& returning, const RuleContext& context) {
  const Snapshot& snapshot = draft.view();
  const Job& job = *archived.job;
  bool is_sound = IsTerminal(job.state) && snapshot.IsForgottenOrArchived(job.id);
  for (const auto& checkpoint : archived.checkpoints) {
    is_sound = is_sound && checkpoint->id <= snapshot.checkpoints.last_id() &&
               snapshot.FindCheckpoint(checkpoint->id) == nullptr;
  }
  for (const auto& event : job.events) {
    is_sound = is_sound && event->sequence <= snapshot.last_event &&
               snapshot.events.Find(event->sequence) == nullptr;
  }
  if (!is_sound) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id,
                     ": history.db has it of another state than state.db is in: "
                     "restore both from backups of one time, or submit the job anew"));
  }
  if (IsKeyTaken(draft, job, context)) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job.id, ": its idempotency key (",
                                                      job.idempotency_key,
                                                      ") belongs to a later job: submit it anew"));
  }
  for (uint64_t source : job.settings->resume_from) {
    if (snapshot.FindCheckpoint(source) != nullptr || returning.count(source) != 0) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id, ": the job that it began from is forgotten: submit it anew"));
  }
  return absl::OkStatus();
}

}  // namespace

EventResult OnArchiveJobs(Draft& draft, const ArchiveJobs& event) {
  // Something may have come in between, even in this very batch. What that touches stays for now.
  const std::set<uint64_t> needed = NeededYet(draft.view(), draft.EditedJobs());
  for (const ArchiveJobs::Group& group : event.groups) {
    if (!MayLeave(draft.view(), needed, group)) continue;
    for (auto archived = group.rbegin(); archived != group.rend(); ++archived) {
      draft.ArchiveJob(archived->job->id, event.put);
    }
  }
  return {};
}

EventResult OnRestoreJobs(Draft& draft, const RestoreJobs& event, const RuleContext& context) {
  std::set<uint64_t> missing = event.needed;
  for (const ArchivedJob& archived : event.jobs) missing.erase(archived.job->id);
  for (uint64_t id : missing) {
    if (draft.view().FindJob(id) != nullptr) continue;
    return Refuse(absl::UnavailableError(
        absl::StrCat("job ", id, " is being archived at this moment: try again")));
  }
  std::vector<const ArchivedJob*> gone;
  std::set<uint64_t> returning;
  for (const ArchivedJob& archived : event.jobs) {
    if (draft.view().FindJob(archived.job->id) != nullptr) continue;
    gone.push_back(&archived);
    for (const auto& checkpoint : archived.checkpoints) returning.insert(checkpoint->id);
  }
  for (const ArchivedJob* archived : gone) {
    if (absl::Status status = MayReturn(draft, *archived, returning, context); !status.ok()) {
      return Refuse(std::move(status));
    }
  }
  for (const ArchivedJob* archived : gone) draft.RestoreJob(*archived);
  return {};
}

}  // namespace muster::controller
