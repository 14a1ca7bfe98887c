// What people do with kept checkpoints: pin, unpin, remove.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "controller/model/job_links.h"
#include "controller/policy/checkpoints/retention_rules.h"
#include "controller/rules/rules.h"

namespace muster::controller {
namespace {

absl::Status Refused(const Checkpoint& checkpoint, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("checkpoint ", checkpoint.id, " (job ",
                                                    checkpoint.job_id, ", step ", checkpoint.step,
                                                    ") ", why));
}

// A job that still needs the checkpoint to begin from; 0: none.
uint64_t NeededBy(const Draft& draft, const Checkpoint& checkpoint) {
  if (!checkpoint.restorable()) return 0;
  std::vector<uint64_t> resuming = *draft.view().resuming_jobs;
  resuming.insert(resuming.end(), draft.new_job_ids().begin(), draft.new_job_ids().end());
  for (uint64_t id : resuming) {
    const std::vector<uint64_t>& sources = draft.view().FindJob(id)->settings->resume_from;
    if (std::count(sources.begin(), sources.end(), checkpoint.id) != 0) return id;
  }
  return 0;
}

bool HasOtherVerified(const Draft& draft, const Job& job, const Checkpoint& checkpoint) {
  const std::set<uint64_t> going = BeingDeleted(draft.view());
  return std::any_of(job.checkpoints.begin(), job.checkpoints.end(), [&](uint64_t id) {
    const Checkpoint& other = *draft.view().FindCheckpoint(id);
    return id != checkpoint.id && other.state == CheckpointState::kVerified &&
           !other.doubt.has_value() && MayBeRestored(other, going);
  });
}

absl::Status Pin(Draft& draft, const Checkpoint& checkpoint, const std::string& actor) {
  if (!checkpoint.pinned_by.empty()) return absl::OkStatus();
  const std::string others =
      absl::StrCat("; `muster ckpt ls ", checkpoint.job_id, "` shows those that can be pinned");
  if (!checkpoint.on_disk()) {
    return Refused(checkpoint, absl::StrCat("is ", CheckpointStateName(checkpoint.state), others));
  }
  const bool going =
      !checkpoint.removed_by.empty() || BeingDeleted(draft.view()).count(checkpoint.id) != 0;
  if (going) {
    return Refused(checkpoint, absl::StrCat("is being deleted", others));
  }
  draft.EditCheckpoint(checkpoint.id).pinned_by = actor;
  return absl::OkStatus();
}

absl::Status CheckRemovable(const Draft& draft, const Checkpoint& checkpoint, bool force) {
  const Job& job = *draft.view().FindJob(checkpoint.job_id);
  if (!checkpoint.pinned_by.empty()) {
    return Refused(checkpoint, absl::StrCat("is pinned by ", checkpoint.pinned_by,
                                            "; `muster ckpt unpin ", checkpoint.id, "` first"));
  }
  if (checkpoint.state == CheckpointState::kWriting) {
    return Refused(checkpoint, "is being written; try again once it is committed");
  }
  if (MayBeLoading(job, checkpoint.id)) {
    return Refused(checkpoint, absl::StrCat("may be what attempt ", job.attempt,
                                            " is loading; try again once the job runs"));
  }
  if (const uint64_t other = NeededBy(draft, checkpoint); other != 0) {
    return Refused(checkpoint, absl::StrCat("is what job ", other,
                                            " is to begin from; cancel that one, or wait until it "
                                            "has a verified checkpoint of its own"));
  }
  if (!force && checkpoint.restorable() && !HasOtherVerified(draft, job, checkpoint)) {
    return Refused(checkpoint,
                   absl::StrCat("is the last one: its job has no other that is verified; `muster "
                                "ckpt rm ",
                                checkpoint.id, " --force` removes it"));
  }
  return absl::OkStatus();
}

absl::Status Remove(Draft& draft, const Checkpoint& checkpoint, const ControlCheckpoint& event) {
  const bool removed =
      checkpoint.state == CheckpointState::kDeleted || !checkpoint.removed_by.empty();
  if (removed) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(CheckRemovable(draft, checkpoint, event.force));
  draft.EditCheckpoint(checkpoint.id).removed_by = event.actor;
  return absl::OkStatus();
}

}  // namespace

EventResult OnControlCheckpoint(Draft& draft, const ControlCheckpoint& event) {
  const Checkpoint* checkpoint = draft.view().FindCheckpoint(event.checkpoint_id);
  if (checkpoint == nullptr) {
    return Refuse(absl::NotFoundError(
        absl::StrCat("checkpoint ", event.checkpoint_id, ": there is no such checkpoint")));
  }
  switch (event.verb) {
    case ControlCheckpoint::Verb::kPin:
      return Refuse(Pin(draft, *checkpoint, event.actor));
    case ControlCheckpoint::Verb::kUnpin:
      if (!checkpoint->pinned_by.empty()) draft.EditCheckpoint(checkpoint->id).pinned_by.clear();
      return {};
    case ControlCheckpoint::Verb::kRemove:
      return Refuse(Remove(draft, *checkpoint, event));
  }
  return Refuse(absl::InvalidArgumentError("a verb for checkpoints that is unknown"));
}

}  // namespace muster::controller
