// A closed loop of unary calls: each client has a connection of its own and so many calls in
// flight; the answer to one starts the next. On gRPC's callback API, so that the load comes from a
// few threads however many clients there are.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "benchmarks/controller/measure.h"

namespace muster::benchmarks {

struct LoopShape {
  int clients = 1;
  int in_flight = 1;  // of each client
  double seconds = 3;
  double warm_up_seconds = 0.3;  // before the clock starts
  uint64_t most = 0;             // calls in all, warm-up included; 0: no bound
};

class ClosedLoop {
 public:
  // Starts one call of that client; `done` says whether it was answered OK.
  using Start = std::function<void(int client, std::function<void(bool ok)> done)>;

  ClosedLoop(const LoopShape& shape, Start start) : shape_(shape), start_(std::move(start)) {}

  // Runs the loop to its end. {"clients", "in_flight", "per_s", "failed", "latency": {...}}
  Json Run();

 private:
  struct Lane {
    int client = 0;
    Latencies latencies;  // of calls that began after the warm-up
  };
  void Next(Lane& lane);
  void Leave();

  const LoopShape shape_;
  const Start start_;
  double measured_from_ = 0;
  double end_ = 0;
  std::atomic<uint64_t> begun_ = 0;
  std::atomic<uint64_t> answered_ = 0;  // after the warm-up, before the end
  std::atomic<uint64_t> failed_ = 0;
  std::atomic<double> last_answer_ = 0;

  std::mutex mutex_;
  std::condition_variable left_;
  int running_ = 0;
};

}  // namespace muster::benchmarks
