#include "controller/api/streams/bulk_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "controller/api/convert/convert.h"

namespace muster::controller {

const v1::BulkAck* BulkStream::NextLocked() {
  if (acked_ == durable_) return nullptr;
  acked_ = durable_;
  outgoing_.set_batch_id(acked_);
  return &outgoing_;
}

absl::Status BulkStream::Take(v1::BulkBatch& batch) {
  absl::Status status = CheckSender(batch);
  if (status.ok()) status = Submit(batch);
  if (!status.ok()) Log(LogLevel::kWarning, "bulk_refused", {{"error", status.ToString()}});
  return status;
}

absl::Status BulkStream::CheckSender(const v1::BulkBatch& batch) {
  if (!said_hello_) {
    if (!batch.has_hello()) return absl::InvalidArgumentError("the first batch must carry a hello");
    said_hello_ = true;
    MUSTER_RETURN_IF_ERROR(CheckPeerIs(batch.hello().worker_name(), sender_));
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

absl::Status BulkStream::Submit(const v1::BulkBatch& batch) {
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
  MutexLock lock(mutex_);
  --unanswered_;
  if (status.ok()) {
    // Batches are stored in their order, so this one vouches for those before it.
    durable_ = batch_id;
  } else {
    EndLocked(
        absl::UnavailableError(absl::StrCat("not stored, send it again: ", status.message())));
  }
  GoOnLocked();
}

}  // namespace muster::controller
