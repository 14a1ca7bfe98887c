#include "benchmarks/controller/closed_loop.h"

#include <algorithm>

namespace muster::benchmarks {

void ClosedLoop::Leave() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (--running_ == 0) left_.notify_all();
}

void ClosedLoop::Next(Lane& lane) {
  const double began = SteadySeconds();
  const bool spent = shape_.most != 0 && begun_.fetch_add(1) >= shape_.most;
  if (began >= end_ || spent) {
    Leave();
    return;
  }
  start_(lane.client, [this, &lane, began](bool ok) {
    const double now = SteadySeconds();
    if (!ok) ++failed_;
    if (ok && now >= measured_from_ && now < end_) {
      ++answered_;
      last_answer_ = now;
      if (began >= measured_from_) lane.latencies.Add(now - began);
    }
    Next(lane);
  });
}

Json ClosedLoop::Run() {
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int client = 0; client < shape_.clients; ++client) {
    for (int i = 0; i < shape_.in_flight; ++i) {
      lanes.push_back(std::make_unique<Lane>(Lane{.client = client, .latencies = {}}));
    }
  }
  running_ = static_cast<int>(lanes.size());
  measured_from_ = SteadySeconds() + shape_.warm_up_seconds;
  end_ = measured_from_ + shape_.seconds;
  for (auto& lane : lanes) Next(*lane);
  {
    std::unique_lock<std::mutex> lock(mutex_);
    left_.wait(lock, [this] { return running_ == 0; });
  }
  Latencies all;
  for (auto& lane : lanes) all.Merge(lane->latencies);
  const double until = shape_.most != 0 ? last_answer_.load() : std::min(SteadySeconds(), end_);
  const double took = std::max(until - measured_from_, 1e-9);
  return {{"clients", shape_.clients}, {"in_flight", shape_.in_flight},
          {"calls", answered_.load()}, {"per_s", static_cast<double>(answered_.load()) / took},
          {"failed", failed_.load()},  {"latency", all.Summary()}};
}

}  // namespace muster::benchmarks
