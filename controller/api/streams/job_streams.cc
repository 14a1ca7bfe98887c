#include "controller/api/streams/job_streams.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/api/calls/known_jobs.h"
#include "controller/api/convert/convert.h"

namespace muster::controller {

bool JobWatch::Turn() {
  if (ended()) return false;
  if (!idle()) return true;
  std::shared_ptr<const Job> job = engine_.snapshot()->jobs.Share(job_id_);
  if (job == nullptr) {
    absl::StatusOr<ArchivedJob> archived = engine_.history().Find(job_id_);
    if (!archived.ok()) {
      End(archived.status());
      return false;
    }
    job = std::move(archived->job);
  }
  if (job == sent_) return true;
  v1::WatchJobResponse response;
  *response.mutable_summary() = ToProto(*job);
  Send(std::move(response));
  const bool over = IsTerminal(job->state);
  sent_ = std::move(job);
  if (over) End(absl::OkStatus());
  return !over;
}

bool VerificationWait::Turn() {
  KnownJobs jobs(engine_);  // its job may have been archived since
  const absl::StatusOr<const Checkpoint*> found = jobs.FindCheckpoint(id_);
  const Checkpoint* checkpoint = found.ok() ? *found : nullptr;
  absl::Status status = found.status();
  if (!status.ok()) {
    // As it is.
  } else if (checkpoint == nullptr) {
    status = absl::NotFoundError(absl::StrCat("checkpoint ", id_, ": is gone"));
  } else if (checkpoint->rereads > rereads_before_) {
    *response_->mutable_checkpoint() = ToProto(*checkpoint);
  } else if (checkpoint->state == CheckpointState::kDeleted) {
    status = absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", id_, ": was deleted before it was reread"));
  } else if (context_->IsCancelled()) {
    status = absl::CancelledError("the client went away");
  } else if (clock_.SinceBoot() >= give_up_at_) {
    status = absl::DeadlineExceededError(
        absl::StrCat("checkpoint ", id_, ": no worker has reread it yet; ask again later"));
  } else {
    return true;
  }
  call_->Done(status);
  return false;
}

void VerificationWait::Abort(const absl::Status& why) { call_->Done(why); }

}  // namespace muster::controller
