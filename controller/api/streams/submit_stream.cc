#include "controller/api/streams/submit_stream.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/api/calls/known_jobs.h"
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
  if (batches_.empty() || batches_.front()->unanswered != 0) return nullptr;
  return &batches_.front()->response;
}

absl::Status SubmitStream::Take(v1::SubmitJobsRequest& message) {
  if (message.submits_size() == 0 || message.submits_size() > kMaxSubmits) {
    return absl::InvalidArgumentError(absl::StrCat("submits: must be 1 to ", kMaxSubmits,
                                                   " in a message; got ", message.submits_size()));
  }
  const auto batch = std::make_shared<Batch>();
  std::vector<Engine::Posted> posts;
  int submits = 0;
  posts.reserve(message.submits_size());
  KnownJobs jobs(engine_);
  for (v1::SubmitRequest& submit : *message.mutable_submits()) {
    v1::SubmitOutcome* outcome = batch->response.add_outcomes();
    absl::Status status = gate_.Admit(caller_);
    absl::StatusOr<SubmitJob> event;
    if (status.ok()) {
      event = CheckStreamed(submit, checkpoint_root_);
      status = event.status();
    }
    jobs.BeginNext();
    if (status.ok()) status = jobs.LoadReferred(*event);
    absl::StatusOr<RestoreList> restore;
    if (status.ok()) {
      restore = jobs.WhatToRestore();
      status = restore.status();
    }
    if (!status.ok()) {
      Fill(status, *outcome);
      continue;
    }
    ++submits;
    posts.push_back({.event = *std::move(event),
                     .done =
                         [self = shared_from_this(), batch, outcome](const EventResult& result) {
                           Fill(result, *outcome);
                           self->Answered(*batch);
                         },
                     .restore = *std::move(restore)});
  }
  batch->unanswered = submits + 1;  // one for this function
  {
    MutexLock lock(mutex_);
    batches_.push_back(batch);
  }
  engine_.PostAll(std::move(posts));
  Answered(*batch);
  return absl::OkStatus();
}

void SubmitStream::Answered(Batch& batch) {
  if (--batch.unanswered != 0) return;
  MutexLock lock(mutex_);
  GoOnLocked();
}

}  // namespace muster::controller
