// One client that submits over a SubmitJobs stream, always with so many submits unanswered: what an
// answer frees is sent as one message. Owns itself until its call is over. Thread-safe.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "benchmarks/controller/measure.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::benchmarks {

inline constexpr int kMostInMessage = 256;  // submits, as the controller takes

// What all streams of one program share.
struct StreamLoad {
  v1::SubmitRequest request;  // each submit is this one, with a key of its own
  bool own_names = false;     // and with a job name of its own
  int in_flight = 256;        // of each stream
  std::string token;
  double measured_from = 0;  // steady seconds
  double end = 0;            // nothing is sent from here on

  std::atomic<uint64_t> answered = 0;  // OK, between measured_from and end
  std::atomic<uint64_t> failed = 0;
  std::mutex mutex;
  std::string last_error;  // guarded by mutex
  Latencies latencies;     // of messages; guarded by mutex
};

class SubmitStreamClient final
    : public grpc::ClientBidiReactor<v1::SubmitJobsRequest, v1::SubmitJobsResponse> {
 public:
  static std::shared_ptr<SubmitStreamClient> Start(v1::JobService::Stub& stub, StreamLoad& load);
  // Waits until all that was sent is answered and the call is over.
  void Join();

 private:
  // Messages under way at a time, so that the controller always has one in hand.
  static constexpr int kMessages = 2;

  explicit SubmitStreamClient(StreamLoad& load) : load_(load) {}
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void WriteLocked();

  StreamLoad& load_;
  grpc::ClientContext context_;
  v1::SubmitJobsResponse incoming_;
  std::shared_ptr<SubmitStreamClient> self_;  // until OnDone

  std::mutex mutex_;
  std::condition_variable over_;
  v1::SubmitJobsRequest outgoing_;  // of the write under way
  std::deque<double> sent_at_;      // of messages without an answer, in their order
  int free_ = 0;                    // submits that may be sent
  bool writing_ = false;
  bool said_all_ = false;
  bool done_ = false;
};

}  // namespace muster::benchmarks
