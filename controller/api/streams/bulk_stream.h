// One agent's Bulk stream: batches of points and logs go to the ingest in order, and are
// acknowledged after the commit. A few may wait for their commit at a time; until then no more is
// read, so that a full disk stops the agent, not us.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/rpc/peer_certificate.h"
#include "controller/api/calls/service_call.h"
#include "controller/api/streams/two_way_stream.h"
#include "controller/engine/engine.h"
#include "controller/metrics/metrics_ingest.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::controller {

class BulkStream final : public TwoWayStream<v1::BulkBatch, v1::BulkAck>,
                         public std::enable_shared_from_this<BulkStream> {
 public:
  static constexpr int kMaxUnanswered = 4;

  // `sender` as in ControlStream.
  BulkStream(CallGate& gate, Engine& engine, MetricsIngest& ingest, PeerNames sender)
      : TwoWayStream(gate, "Bulk"), engine_(engine), ingest_(ingest), sender_(std::move(sender)) {}

 private:
  absl::Status Take(v1::BulkBatch& batch) override;
  bool MayReadLocked() const override MUSTER_REQUIRES(mutex_) {
    return unanswered_ < kMaxUnanswered;
  }
  const v1::BulkAck* NextLocked() override MUSTER_REQUIRES(mutex_);
  bool OwesLocked() const override MUSTER_REQUIRES(mutex_) {
    return unanswered_ > 0 || acked_ != durable_;
  }
  // An agent whose ranks are all gone has nothing to send; it opens the stream again.
  absl::Duration PatienceLocked() const override MUSTER_REQUIRES(mutex_) {
    return gate_.patience().idle;
  }

  absl::Status CheckSender(const v1::BulkBatch& batch);
  absl::Status Submit(const v1::BulkBatch& batch);
  void Stored(uint64_t batch_id, const absl::Status& status);

  Engine& engine_;
  MetricsIngest& ingest_;
  const PeerNames sender_;
  bool said_hello_ = false;  // by Take only, as the three below
  std::string worker_;
  std::string incarnation_;
  uint64_t last_batch_id_ = 0;

  v1::BulkAck outgoing_ MUSTER_GUARDED_BY(mutex_);  // of the write under way
  uint64_t durable_ MUSTER_GUARDED_BY(mutex_) = 0;  // batches up to this one are stored
  uint64_t acked_ MUSTER_GUARDED_BY(mutex_) = 0;
  int unanswered_ MUSTER_GUARDED_BY(mutex_) = 0;
};

}  // namespace muster::controller
