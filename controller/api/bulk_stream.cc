#include "controller/api/bulk_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "controller/api/convert.h"

namespace muster::controller {

BulkStream* BulkStream::Begin(std::shared_ptr<BulkStream> stream, const absl::Status& allowed) {
  BulkStream* raw = stream.get();
  raw->self_ = std::move(stream);
  if (!allowed.ok()) {
    raw->Close(allowed);
    return raw;
  }
  MutexLock lock(raw->mutex_);
  raw->ReadOnLocked();
  return raw;
}

void BulkStream::Close(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (ended_) return;
  ended_ = true;
  status_ = status;
  FinishIfIdleLocked();
}

void BulkStream::ReadOnLocked() {
  if (reading_ || ended_ || unanswered_ >= kMaxUnanswered) return;
  reading_ = true;
  StartRead(&incoming_);
}

void BulkStream::WriteAckLocked() {
  if (writing_ || finished_ || acked_ == durable_) return;
  writing_ = true;
  acked_ = durable_;
  outgoing_.set_batch_id(acked_);
  StartWrite(&outgoing_);
}

void BulkStream::FinishIfIdleLocked() {
  // A stream that the agent ended well still gets the acknowledgements of what it sent.
  const bool owes = status_.ok() && (unanswered_ > 0 || acked_ != durable_);
  if (!ended_ || finished_ || writing_ || owes) return;
  finished_ = true;
  Finish(ToGrpc(status_));
}

void BulkStream::OnReadDone(bool ok) {
  // reading_ stays set until the batch is taken: a commit of an earlier one, on another thread,
  // must not start a read over it.
  if (!ok) {
    Close(absl::OkStatus());
    return;
  }
  absl::Status status = CheckSender(incoming_);
  if (status.ok()) status = Take(incoming_);
  if (!status.ok()) {
    Log(LogLevel::kWarning, "bulk_refused", {{"error", status.ToString()}});
    Close(status);
    return;
  }
  MutexLock lock(mutex_);
  reading_ = false;
  ReadOnLocked();
}

absl::Status BulkStream::CheckSender(const v1::BulkBatch& batch) {
  if (!said_hello_) {
    if (!batch.has_hello()) return absl::InvalidArgumentError("the first batch must carry a hello");
    said_hello_ = true;
    worker_ = batch.hello().worker_name();
    incarnation_ = batch.hello().incarnation();
  }
  // With each batch: a second agent of the name may have fenced this one.
  const std::shared_ptr<const Snapshot> snapshot = engine_.snapshot();
  const Worker* worker = snapshot->FindWorker(worker_);
  if (worker == nullptr || worker->incarnation != incarnation_) {
    return absl::FailedPreconditionError(
        "no Control stream of this agent's incarnation is known: connect that one first");
  }
  return absl::OkStatus();
}

absl::Status BulkStream::Take(const v1::BulkBatch& batch) {
  const uint64_t id = batch.batch_id();
  if (id != last_batch_id_ + 1 && last_batch_id_ != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch ", id, " came after batch ", last_batch_id_));
  }
  if (id == 0) return absl::InvalidArgumentError("batch_id starts at 1");
  MUSTER_ASSIGN_OR_RETURN(MetricsBatch parsed, FromProto(batch));
  parsed.worker = worker_;
  last_batch_id_ = id;
  {
    MutexLock lock(mutex_);
    ++unanswered_;
  }
  ingest_.Submit(std::move(parsed), [self = shared_from_this(), id](const absl::Status& status) {
    self->Stored(id, status);
  });
  return absl::OkStatus();
}

void BulkStream::Stored(uint64_t batch_id, const absl::Status& status) {
  if (!status.ok()) {
    Close(absl::UnavailableError(absl::StrCat("not stored, send it again: ", status.message())));
  }
  MutexLock lock(mutex_);
  --unanswered_;
  // Batches are stored in their order, so this one vouches for those before it.
  if (status.ok()) durable_ = batch_id;
  WriteAckLocked();
  ReadOnLocked();
  FinishIfIdleLocked();
}

void BulkStream::OnWriteDone(bool ok) {
  MutexLock lock(mutex_);
  writing_ = false;
  if (!ok) {
    ended_ = true;
    status_ = absl::UnavailableError("the agent went away");
  } else {
    WriteAckLocked();
  }
  FinishIfIdleLocked();
}

void BulkStream::OnCancel() {
  MutexLock lock(mutex_);
  ended_ = true;
  status_ = absl::CancelledError("the agent went away");
  FinishIfIdleLocked();
}

void BulkStream::OnDone() {
  absl::StatusCode code;
  {
    MutexLock lock(mutex_);
    code = status_.code();
  }
  gate_.StreamClosed("Bulk", code);
  self_.reset();  // the last line: it may delete this
}

}  // namespace muster::controller
