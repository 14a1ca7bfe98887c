#include "worker/agent/connection/bulk_sender.h"

#include <grpcpp/channel.h>

#include "common/base/log.h"

namespace muster::worker {
namespace {

// How long records may gather before they leave; a full batch leaves at once when room is made by
// an ack.
constexpr absl::Duration kFlushInterval = absl::Milliseconds(200);
constexpr absl::Duration kBulkFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(5);

}  // namespace

BulkSender::BulkSender(EventLoop& loop, std::shared_ptr<grpc::Channel> channel, Spool& spool,
                       BulkSenderOptions options)
    : loop_(loop),
      stub_(v1::WorkerService::NewStub(channel)),
      spool_(spool),
      options_(std::move(options)),
      backoff_(kBulkFirstPause, kLongestPause, options_.seed) {}

BulkSender::~BulkSender() { SessionDown(); }

void BulkSender::SessionUp() {
  if (up_) SessionDown();
  up_ = true;
  backoff_.Reset();
  Open();
}

void BulkSender::SessionDown() {
  up_ = false;
  Close();
}

void BulkSender::Close() {
  loop_.Cancel(timer_);
  if (stream_ != nullptr) stream_->Close();
  stream_.reset();
  under_way_.clear();
}

void BulkSender::Open() {
  stream_ = BidiStream<v1::BulkBatch, v1::BulkAck>::Start(
      loop_.mailbox(), options_.token,
      [this](grpc::ClientContext* context, auto* reactor) {
        stub_->async()->Bulk(context, reactor);
      },
      {.on_message = [this](const v1::BulkAck& ack) { OnAck(ack); },
       .on_end = [this](absl::Status status) { OnEnd(status); }});
  next_batch_ = 1;
  sent_ = spool_.acknowledged();
  Flush();
}

void BulkSender::OnEnd(const absl::Status& status) {
  Close();
  if (!up_) return;
  const absl::Duration pause = backoff_.Next();
  // The controller gives up a stream on which nothing was said for long.
  const bool was_idle = absl::IsDeadlineExceeded(status);
  Log(was_idle ? LogLevel::kInfo : LogLevel::kWarning, "bulk_stream_ended",
      {{"error", status.ToString()}, {"retry_ms", absl::ToInt64Milliseconds(pause)}});
  timer_ = loop_.After(pause, [this] { Open(); });
}

void BulkSender::Flush() {
  loop_.Cancel(timer_);
  while (under_way_.size() < kMaxUnderWay) {
    absl::StatusOr<SpoolBatch> batch = spool_.Read(sent_, kMaxBatchRecords, kMaxBatchBytes);
    if (!batch.ok()) {
      Log(LogLevel::kError, "spool_unreadable", {{"error", batch.status().ToString()}});
      break;
    }
    sent_ = batch->end;
    if (batch->count == 0) break;
    if (next_batch_ == 1) *batch->records.mutable_hello() = options_.hello;
    batch->records.set_batch_id(next_batch_);
    under_way_.emplace_back(next_batch_++, batch->end);
    stream_->Send(std::move(batch->records));
  }
  timer_ = loop_.After(kFlushInterval, [this] { Flush(); });
}

void BulkSender::OnAck(const v1::BulkAck& ack) {
  backoff_.Reset();
  while (!under_way_.empty() && under_way_.front().first <= ack.batch_id()) {
    spool_.Acknowledge(under_way_.front().second);
    under_way_.pop_front();
  }
  Flush();
}

}  // namespace muster::worker
