// One agent's Bulk stream: batches of points and logs go to the ingest in order, and are
// acknowledged after the commit. A few may wait for their commit at a time; until then no more is
// read, so that a full disk stops the agent, not us.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "controller/api/call.h"
#include "controller/engine/engine.h"
#include "controller/engine/metrics_ingest.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::controller {

class BulkStream final : public grpc::ServerBidiReactor<v1::BulkBatch, v1::BulkAck>,
                         public std::enable_shared_from_this<BulkStream> {
 public:
  static constexpr int kMaxUnanswered = 4;

  BulkStream(CallGate& gate, Engine& engine, MetricsIngest& ingest)
      : gate_(gate), engine_(engine), ingest_(ingest) {
    gate_.StreamOpened("Bulk");
  }

  // Hands the stream to gRPC; `allowed` not OK: it ends with that.
  static BulkStream* Begin(std::shared_ptr<BulkStream> stream, const absl::Status& allowed);
  void Close(const absl::Status& status) MUSTER_EXCLUDES(mutex_);

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  absl::Status CheckSender(const v1::BulkBatch& batch);
  absl::Status Take(const v1::BulkBatch& batch);
  void Stored(uint64_t batch_id, const absl::Status& status);
  void ReadOnLocked() MUSTER_REQUIRES(mutex_);
  void WriteAckLocked() MUSTER_REQUIRES(mutex_);
  void FinishIfIdleLocked() MUSTER_REQUIRES(mutex_);

  CallGate& gate_;
  Engine& engine_;
  MetricsIngest& ingest_;
  std::shared_ptr<BulkStream> self_;  // until OnDone
  v1::BulkBatch incoming_;            // of the read under way
  bool said_hello_ = false;           // read callbacks only, as are the two below
  std::string worker_;
  std::string incarnation_;
  uint64_t last_batch_id_ = 0;  // read callbacks only

  Mutex mutex_;
  v1::BulkAck outgoing_ MUSTER_GUARDED_BY(mutex_);  // of the write under way
  uint64_t durable_ MUSTER_GUARDED_BY(mutex_) = 0;  // batches up to this one are stored
  uint64_t acked_ MUSTER_GUARDED_BY(mutex_) = 0;
  int unanswered_ MUSTER_GUARDED_BY(mutex_) = 0;
  bool reading_ MUSTER_GUARDED_BY(mutex_) = false;
  bool writing_ MUSTER_GUARDED_BY(mutex_) = false;
  bool ended_ MUSTER_GUARDED_BY(mutex_) = false;
  bool finished_ MUSTER_GUARDED_BY(mutex_) = false;
  absl::Status status_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
