// Where the time of a step goes: seconds by part, summed over a report interval.
//
// The loop marks the end of each part; the time since the last mark belongs to it. On a device that
// computes behind the host's back these are times of the host. One thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

namespace muster::worker {

enum class StepPart {
  kData,
  kForwardBackward,
  kCommunication,
  kOptimizer,
  kSave,
  kEvaluate,
  kOther
};

class StepTimer {
 public:
  StepTimer() : last_(Clock::now()) {}

  // The time since the last mark was spent on `part`.
  void Mark(StepPart part) {
    const Clock::time_point now = Clock::now();
    Sum(part) += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  // Of what was marked as `from`, so much belongs to `to`.
  void Move(StepPart from, StepPart to, double seconds) {
    Sum(from) -= seconds;
    Sum(to) += seconds;
  }

  double seconds(StepPart part) const { return sums_[static_cast<size_t>(part)]; }
  double total_seconds() const {
    double total = 0;
    for (const double sum : sums_) total += sum;
    return total;
  }
  void Reset() { sums_ = {}; }

 private:
  using Clock = std::chrono::steady_clock;
  double& Sum(StepPart part) { return sums_[static_cast<size_t>(part)]; }

  Clock::time_point last_;
  std::array<double, 7> sums_{};
};

}  // namespace muster::worker
