// A controller for tests of the agent: a real gRPC server on loopback that records what the agent
// says and answers as told. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "muster/v1/upload_service.grpc.pb.h"
#include "muster/v1/worker_service.grpc.pb.h"
#include "worker/agent/base/rank_key.h"

namespace muster::testing {

class FakeController final : public v1::WorkerService::Service {
 public:
  // What a test turns; take and set it through Configure.
  struct Behaviour {
    uint64_t term = 1;
    std::string id = std::string(16, 'c');
    int64_t heartbeat_interval_ms = 50;
    int64_t lease_ms = 2000;
    bool ack_heartbeats = true;
    bool ack_events = true;
    bool ack_bulk = true;
    bool answer_store = true;
    bool save_on_notice =
        true;  // answers Notice with StopRanks(SAVE) for every rank in the last heartbeat
    grpc::Status refuse = grpc::Status::OK;  // every Control call ends with it
    size_t upload_pieces = 0;  // so many come of any upload that is fetched, and no end
    std::vector<v1::Welcome::StaleRank> stale;
  };
  // All that was heard. Records that came twice are counted, not kept twice.
  struct Heard {
    std::vector<v1::Hello> hellos;
    std::map<uint64_t, v1::WorkerMessage> events;  // by event_seq, of the last incarnation
    size_t repeated_events = 0;
    std::vector<std::vector<uint64_t>> packed_events;  // event_seq of those in one message each
    std::map<uint64_t, std::string> assignment_acks;   // refusal by outbox_seq
    size_t heartbeats = 0;
    size_t refused = 0;        // Control calls that Behaviour.refuse ended
    size_t fetches_ended = 0;  // of uploads
    v1::Heartbeat last_heartbeat;
    std::vector<v1::Notice> notices;
    std::vector<v1::StoreRequest> store_requests;
    std::map<worker::RankKey, std::map<uint64_t, v1::MetricRecord>> metrics;
    std::map<worker::RankKey, std::map<uint64_t, std::string>> logs;    // stdout, by offset
    std::map<worker::RankKey, std::map<uint64_t, std::string>> errors;  // stderr, by offset
    std::vector<v1::GapRecord> gaps;
    size_t repeated_records = 0;
    size_t largest_batch = 0;

    // Events of one kind of one rank.
    const v1::RankEvent* FindEvent(v1::RankEvent::Kind kind, uint32_t rank = 0,
                                   uint32_t attempt = 1) const;
    // The rank's stdout so far; "" while it has a hole.
    std::string Log(uint32_t rank = 0, uint32_t attempt = 1) const;
    size_t MetricCount(uint32_t rank = 0, uint32_t attempt = 1) const;
  };

  FakeController() { Start(); }
  ~FakeController() override { Stop(); }

  // Listens: on a free port at first, later on the same one. Stop ends all streams at once, as a
  // crash would.
  void Start();
  void Stop();
  std::string address() const;

  void Configure(const std::function<void(Behaviour&)>& change) MUSTER_EXCLUDES(mutex_);
  // Sends to the agent's current stream; false when there is none.
  bool Send(const v1::ControllerMessage& message) MUSTER_EXCLUDES(mutex_);
  // Waits until the condition holds for what was heard. False after a minute: then the test fails.
  bool Await(const std::function<bool(const Heard&)>& condition) MUSTER_EXCLUDES(mutex_);
  Heard heard() MUSTER_EXCLUDES(mutex_);

 private:
  class Uploads final : public v1::UploadService::Service {
   public:
    explicit Uploads(FakeController& controller) : controller_(controller) {}

   private:
    grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchUploadRequest* request,
                       grpc::ServerWriter<v1::FetchUploadResponse>* writer) override;

    FakeController& controller_;
  };
  using ControlCall = grpc::ServerReaderWriter<v1::ControllerMessage, v1::WorkerMessage>;
  using BulkCall = grpc::ServerReaderWriter<v1::BulkAck, v1::BulkBatch>;

  grpc::Status Control(grpc::ServerContext* context, ControlCall* call) override;
  grpc::Status Bulk(grpc::ServerContext* context, BulkCall* call) override;
  void HandleLocked(const v1::WorkerMessage& message, std::vector<v1::ControllerMessage>& answers)
      MUSTER_REQUIRES(mutex_);
  void TakeNoticeLocked(const v1::Notice& notice, std::vector<v1::ControllerMessage>& answers)
      MUSTER_REQUIRES(mutex_);
  void AnswerStoreLocked(const v1::StoreRequest& request,
                         std::vector<v1::ControllerMessage>& answers) MUSTER_REQUIRES(mutex_);
  void TakeBatchLocked(const v1::BulkBatch& batch) MUSTER_REQUIRES(mutex_);

  Uploads uploads_{*this};
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  Mutex write_mutex_;  // one writer of a stream at a time; taken before mutex_
  Mutex mutex_;
  CondVar changed_;
  ControlCall* control_ MUSTER_GUARDED_BY(mutex_) = nullptr;
  std::set<grpc::ServerContext*> contexts_ MUSTER_GUARDED_BY(mutex_);
  Behaviour behaviour_ MUSTER_GUARDED_BY(mutex_);
  Heard heard_ MUSTER_GUARDED_BY(mutex_);
  std::map<std::string, std::string> store_ MUSTER_GUARDED_BY(mutex_);
  uint64_t next_stop_seq_ MUSTER_GUARDED_BY(mutex_) = 1'000'000;
};

}  // namespace muster::testing
