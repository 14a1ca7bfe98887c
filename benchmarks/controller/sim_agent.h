// An agent that exists only as a Control stream: it says hello, sends heartbeats, and plays ranks
// that start, run and end without any process. For load on the controller.
//
// Owns itself until its call is over. Thread-safe.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "benchmarks/controller/measure.h"
#include "common/rpc/packed_queue.h"
#include "muster/v1/worker_service.grpc.pb.h"

namespace muster::benchmarks {

// What all agents of one program count together.
struct AgentCounts {
  std::atomic<uint64_t> welcomed = 0;
  std::atomic<uint64_t> ended = 0;           // streams that the controller ended
  std::atomic<uint64_t> started_gangs = 0;   // StartRanks taken
  std::atomic<uint64_t> events_sent = 0;     // numbered reports
  std::atomic<uint64_t> events_durable = 0;  // acknowledged
  std::atomic<uint64_t> ranks_ended = 0;     // of which: acknowledged EXITED
  std::atomic<uint64_t> ranks_met = 0;       // that have what they waited for in the gang's store
  std::atomic<uint64_t> heartbeats_sent = 0;
  std::atomic<uint64_t> heartbeats_answered = 0;
  std::mutex mutex;
  Latencies heartbeat_latencies;  // guarded by mutex
  std::string last_error;         // guarded by mutex
};

struct AgentOptions {
  std::string name;
  uint32_t slots = 8;
  std::string pool = "default";
  std::string token;
  // Ranks end at once, successfully; else they run until the program ends.
  bool ranks_end = true;
  // Ranks meet in the gang's store before they run, as those of a trainer do: each leaves its
  // address, waits, and the last one to come lets all go on. This is how many they are; 0: they
  // do not.
  uint32_t meet = 0;
  // Values that each rank reports with its heartbeats.
  std::map<std::string, double> latest;
  // Runs when a gang's assignment arrives; may be empty.
  std::function<void(const v1::StartRanks&)> on_start;
};

class SimAgent final : public grpc::ClientBidiReactor<v1::WorkerMessage, v1::ControllerMessage>,
                       public std::enable_shared_from_this<SimAgent> {
 public:
  static std::shared_ptr<SimAgent> Connect(v1::WorkerService::Stub& stub, AgentOptions options,
                                           AgentCounts& counts);

  void Heartbeat();
  // Ends the stream; the call is over soon after.
  void Hang();
  // The 16 random bytes of this life.
  const std::string& incarnation() const { return incarnation_; }
  const std::string& name() const { return options_.name; }
  // Waits until the call is over.
  void Join();

 private:
  SimAgent(AgentOptions options, AgentCounts& counts);
  void OnReadDone(bool ok) override;
  void Handle(const v1::ControllerMessage& message);
  void WriteNext();  // under mutex_
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  void Take(const v1::StartRanks& start);
  void Meet(const v1::Fence& fence, uint32_t rank);
  void Ask(const v1::Fence& fence, uint32_t rank, v1::StoreRequest::Op op, const std::string& key,
           const std::string& value, std::function<void(const v1::StoreReply&)> then);
  void Answer(const v1::StoreReply& reply);
  void Run(const v1::Fence& fence, uint32_t rank);
  void See(const v1::WatchRoots& roots);
  void SayHello();
  void Report(const v1::Fence& fence, uint32_t rank, v1::RankEvent::Kind kind);
  void Send(v1::WorkerMessage message);

  const AgentOptions options_;
  AgentCounts& counts_;
  std::string incarnation_;
  grpc::ClientContext context_;
  v1::ControllerMessage incoming_;
  std::shared_ptr<SimAgent> self_;  // until OnDone

  std::mutex mutex_;
  std::condition_variable over_;
  PackedQueue<v1::WorkerMessage> queue_;
  v1::WorkerMessage outgoing_;
  bool writing_ = false;
  uint64_t event_seq_ = 0;
  uint64_t heartbeat_seq_ = 0;
  std::map<uint64_t, double> heartbeat_sent_;  // steady seconds, by sequence
  std::map<uint64_t, bool> ends_rank_;         // unacknowledged events, by sequence
  std::map<uint64_t, std::function<void(const v1::StoreReply&)>> asked_;  // by request
  uint64_t last_request_ = 0;
  std::vector<v1::RankStatus> running_;
  bool hung_ = false;
  bool done_ = false;
};

}  // namespace muster::benchmarks
