#include "controller/api/streams/submit_stream.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "controller/api/calls/referred_jobs.h"
#include "controller/api/calls/submit_check.h"

namespace muster::controller {
namespace {

void Fill(const absl::Status& status, v1::SubmitOutcome& outcome) {
  outcome.set_code(static_cast<int32_t>(status.code()));
  outcome.set_message(std::string(status.message()));
}

void Fill(const EventResult& result, v1::SubmitOutcome& outcome) {
  if (!result.status.ok()) {
    Fill(result.status, outcome);
    return;
  }
  outcome.set_job_id(result.job_id);
  outcome.set_jobs(result.jobs);
  outcome.set_already_existed(result.already_existed);
}

}  // namespace

const v1::SubmitJobsResponse* SubmitStream::NextLocked() {
  if (batches_.empty() || !batches_.front()->recorded) return nullptr;
  return &batches_.front()->response;
}

absl::Status SubmitStream::Take(v1::SubmitJobsRequest& message) {
  if (message.submits_size() == 0 || message.submits_size() > kMaxSubmits) {
    return absl::InvalidArgumentError(absl::StrCat("submits: must be 1 to ", kMaxSubmits,
                                                   " in a message; got ", message.submits_size()));
  }
  // With the roles that they have now.
  MUSTER_ASSIGN_OR_RETURN(const Caller caller, gate_.Again(caller_));
  const auto batch = std::make_shared<Batch>();
  std::vector<Engine::Posted> posts;
  posts.reserve(message.submits_size());
  KnownJobs jobs(engine_, gate_.ReadsOf(caller));
  for (v1::SubmitRequest& submit : *message.mutable_submits()) {
    v1::SubmitOutcome* outcome = batch->response.add_outcomes();
    jobs.BeginNext();
    absl::StatusOr<Engine::Posted> posted = PostedOf(caller, submit, jobs);
    if (!posted.ok()) {
      Fill(posted.status(), *outcome);
      continue;
    }
    const std::string& project = submit.spec().project();  // the default is in it by now
    if (posts.empty()) batch->project = project;
    if (project != batch->project) batch->project.clear();
    posted->done = [self = shared_from_this(), batch, outcome](const EventResult& result) {
      Fill(result, *outcome);
      self->Answered(batch);
    };
    posts.push_back(*std::move(posted));
  }
  batch->unanswered = static_cast<int>(posts.size()) + 1;  // one for this function
  {
    MutexLock lock(mutex_);
    batches_.push_back(batch);
  }
  engine_.PostAll(std::move(posts));
  Answered(batch);
  return absl::OkStatus();
}

absl::StatusOr<Engine::Posted> SubmitStream::PostedOf(const Caller& caller,
                                                      v1::SubmitRequest& submit, KnownJobs& jobs) {
  MUSTER_RETURN_IF_ERROR(gate_.Admit(caller.bucket));
  MUSTER_RETURN_IF_ERROR(gate_.CanRecord());
  submit.set_owner(caller.NameOr(submit.owner()));
  MUSTER_ASSIGN_OR_RETURN(SubmitJob event, CheckStreamed(submit, checkpoint_root_));
  LetWaitFor(workers_to_come_, event);
  MUSTER_RETURN_IF_ERROR(gate_.CheckProject(caller, event.settings->project));
  MUSTER_RETURN_IF_ERROR(LoadReadable(gate_, caller, jobs, event));
  MUSTER_ASSIGN_OR_RETURN(RestoreList restore, jobs.WhatToRestore());
  return Engine::Posted{.event = std::move(event), .done = {}, .restore = std::move(restore)};
}

void SubmitStream::Answered(const std::shared_ptr<Batch>& batch) {
  if (--batch->unanswered != 0) return;
  uint64_t jobs = 0;
  uint64_t before = 0;
  uint64_t first = std::numeric_limits<uint64_t>::max();
  uint64_t last = 0;
  for (const v1::SubmitOutcome& outcome : batch->response.outcomes()) {
    if (outcome.code() != 0) continue;
    jobs += outcome.jobs();
    if (outcome.already_existed()) before += outcome.jobs();
    first = std::min(first, outcome.job_id());
    last = std::max(last, outcome.job_id() + std::max(1u, outcome.jobs()) - 1);
  }
  const auto recorded = [self = shared_from_this(), batch] {
    MutexLock lock(self->mutex_);
    batch->recorded = true;
    self->GoOnLocked();
  };
  if (jobs == 0) return recorded();
  gate_.RecordChange(
      caller_, batch->project,
      absl::StrCat(jobs, " jobs from ", first, " to ", last,
                   before == 0 ? "" : absl::StrCat(", ", before, " submitted before")),
      recorded);
}

}  // namespace muster::controller
