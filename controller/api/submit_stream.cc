#include "controller/api/submit_stream.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/api/submit_rules.h"

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

SubmitStream* SubmitStream::Begin(std::shared_ptr<SubmitStream> stream,
                                  const absl::Status& allowed) {
  SubmitStream* raw = stream.get();
  raw->self_ = std::move(stream);
  if (!allowed.ok()) {
    raw->Close(allowed);
    return raw;
  }
  MutexLock lock(raw->mutex_);
  raw->ReadOnLocked();
  return raw;
}

void SubmitStream::Close(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (ended_) return;
  ended_ = true;
  status_ = status;
  FinishIfIdleLocked();
}

void SubmitStream::ReadOnLocked() {
  if (reading_ || ended_ || batches_.size() >= kMaxUnanswered) return;
  reading_ = true;
  StartRead(&incoming_);
}

void SubmitStream::WriteLocked() {
  // A client that is told why its stream ends gets no more answers.
  const bool over = finished_ || (ended_ && !status_.ok());
  if (writing_ || over || batches_.empty() || batches_.front()->unanswered != 0) return;
  writing_ = true;
  StartWrite(&batches_.front()->response);
}

void SubmitStream::FinishIfIdleLocked() {
  // A client that has said all that it has to say still gets its answers.
  const bool owes = status_.ok() && !batches_.empty();
  if (!ended_ || finished_ || writing_ || owes) return;
  finished_ = true;
  Finish(ToGrpc(status_));
}

void SubmitStream::OnReadDone(bool ok) {
  // reading_ stays set until the message is taken: an answer to an earlier one, on another thread,
  // must not start a read over it.
  if (!ok) {
    Close(absl::OkStatus());
    return;
  }
  if (absl::Status status = Take(incoming_); !status.ok()) {
    Close(status);
    return;
  }
  MutexLock lock(mutex_);
  reading_ = false;
  ReadOnLocked();
}

absl::Status SubmitStream::Take(v1::SubmitJobsRequest& message) {
  if (message.submits_size() == 0 || message.submits_size() > kMaxSubmits) {
    return absl::InvalidArgumentError(absl::StrCat("submits: must be 1 to ", kMaxSubmits,
                                                   " in a message; got ", message.submits_size()));
  }
  const auto batch = std::make_shared<Batch>();
  std::vector<Engine::Posted> posts;
  for (v1::SubmitRequest& submit : *message.mutable_submits()) {
    v1::SubmitOutcome* outcome = batch->response.add_outcomes();
    absl::Status status = gate_.Admit(caller_);
    absl::StatusOr<SubmitJob> event;
    if (status.ok()) {
      event = CheckStreamed(submit, checkpoint_root_);
      status = event.status();
    }
    if (!status.ok()) {
      Fill(status, *outcome);
      continue;
    }
    posts.push_back(
        {.event = *std::move(event),
         .done = [self = shared_from_this(), batch, outcome](const EventResult& result) {
           Fill(result, *outcome);
           self->Answered(*batch);
         }});
  }
  batch->unanswered = static_cast<int>(posts.size()) + 1;  // one for this function
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
  WriteLocked();
}

void SubmitStream::OnWriteDone(bool ok) {
  MutexLock lock(mutex_);
  writing_ = false;
  batches_.pop_front();
  if (!ok && !ended_) {
    ended_ = true;
    status_ = absl::CancelledError("the client went away");
  }
  WriteLocked();
  ReadOnLocked();
  FinishIfIdleLocked();
}

void SubmitStream::OnCancel() {
  MutexLock lock(mutex_);
  if (finished_) return;
  ended_ = true;
  status_ = absl::CancelledError("the client went away");
  FinishIfIdleLocked();
}

void SubmitStream::OnDone() {
  absl::StatusCode code;
  {
    MutexLock lock(mutex_);
    code = status_.code();
  }
  gate_.StreamClosed("SubmitJobs", code);
  self_.reset();  // the last line: it may delete this
}

}  // namespace muster::controller
