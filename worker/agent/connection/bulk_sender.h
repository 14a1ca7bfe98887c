// Sends the spool to the controller over the Bulk stream, in order, in batches, and trims it as
// they are acknowledged.
//
// Runs only while the session is up; after an outage it goes on from the last acknowledged record.
// A batch that was under way is sent again: the controller drops what it has seen. Lives on the
// event loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "muster/v1/worker_service.grpc.pb.h"
#include "worker/agent/base/backoff.h"
#include "worker/agent/base/event_loop.h"
#include "worker/agent/connection/bidi_stream.h"
#include "worker/agent/telemetry/spool.h"

namespace muster::worker {

struct BulkSenderOptions {
  v1::BulkHello hello;
  std::string token;
  uint64_t seed = 0;
};

class BulkSender {
 public:
  static constexpr size_t kMaxBatchRecords = 100;
  static constexpr size_t kMaxBatchBytes = 1u << 20;
  static constexpr size_t kMaxUnderWay = 4;

  // All outlive the sender.
  BulkSender(EventLoop& loop, std::shared_ptr<grpc::Channel> channel, Spool& spool,
             BulkSenderOptions options);
  ~BulkSender();
  BulkSender(const BulkSender&) = delete;
  BulkSender& operator=(const BulkSender&) = delete;

  void SessionUp();
  void SessionDown();

 private:
  void Open();
  void Close();
  void Flush();
  void OnAck(const v1::BulkAck& ack);
  void OnEnd(const absl::Status& status);

  EventLoop& loop_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  Spool& spool_;
  const BulkSenderOptions options_;
  std::shared_ptr<BidiStream<v1::BulkBatch, v1::BulkAck>> stream_;
  std::deque<std::pair<uint64_t, SpoolPosition>>
      under_way_;  // batch id and what its ack acknowledges
  SpoolPosition sent_;
  uint64_t next_batch_ = 1;
  Backoff backoff_;
  EventLoop::TimerId timer_ = 0;
  bool up_ = false;
};

}  // namespace muster::worker
