#include "tests/sim/bulk_server.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::sim {

void BulkServer::OnBatch(const v1::BulkBatch& batch) {
  if (!HostLives()) return TellReset(host_, wire_);
  if (ended_) return;
  absl::Status status = CheckSender(batch);
  if (status.ok()) status = Submit(batch);
  if (!status.ok()) Close(status);
}

absl::Status BulkServer::CheckSender(const v1::BulkBatch& batch) {
  if (!std::exchange(said_hello_, true)) {
    if (!batch.has_hello()) return absl::InvalidArgumentError("the first batch has no hello");
    worker_ = batch.hello().worker_name();
    incarnation_ = batch.hello().incarnation();
  }
  // With each batch: a second agent of the name may have fenced this one.
  const std::shared_ptr<const mc::Snapshot> snapshot = host_.engine()->snapshot();
  const mc::Worker* worker = snapshot->FindWorker(worker_);
  if (worker == nullptr || worker->incarnation != incarnation_) {
    return absl::FailedPreconditionError("no Control stream of this incarnation is known");
  }
  return absl::OkStatus();
}

absl::Status BulkServer::Submit(const v1::BulkBatch& batch) {
  const uint64_t id = batch.batch_id();
  if (id != last_batch_id_ + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch ", id, " came after batch ", last_batch_id_));
  }
  absl::StatusOr<mc::MetricsBatch> parsed = mc::FromProto(batch);
  if (!parsed.ok()) return parsed.status();
  parsed->worker = worker_;
  last_batch_id_ = id;
  host_.ingest()->Submit(
      *std::move(parsed),
      [self = shared_from_this(), id](const absl::Status& status) { self->Stored(id, status); });
  host_.WakeIngest();
  return absl::OkStatus();
}

void BulkServer::Stored(uint64_t batch_id, const absl::Status& status) {
  if (!HostLives()) return;  // it died of the commit, or before
  if (!status.ok()) {
    return Close(
        absl::UnavailableError(absl::StrCat("not stored, send it again: ", status.message())));
  }
  if (ended_ || !host_.MayEmit()) return;
  v1::BulkAck ack;
  ack.set_batch_id(batch_id);
  wire_->down->Send([at_agent = at_agent_, ack] { at_agent(ack); });
}

void BulkServer::Close(const absl::Status& status) {
  if (std::exchange(ended_, true) || !HostLives() || !host_.MayEmit()) return;
  wire_->down->Send([wire = std::weak_ptr(wire_), status] {
    if (const auto held = wire.lock(); held != nullptr && held->agent_end) held->agent_end(status);
  });
}

}  // namespace muster::sim
