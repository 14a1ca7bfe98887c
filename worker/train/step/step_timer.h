// Where the time of a step goes: seconds by part, summed over a report interval.
//
// Data is what the loop waits for a batch (batch_queue.h), not what making it takes. The loop marks
// the end of each part; the time since the last mark belongs to it. A device computes behind the
// host's back, so there a mark is an event in its stream, and a part takes as long as the stream
// was at it or waited for it: for a batch, for other ranks. Nothing waits for the device: what it
// has not passed yet counts in the next interval. One thread. Throws what torch throws.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

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
  explicit StepTimer(c10::Device device) : device_(device), last_(Clock::now()) {}

  // The time since the last mark was spent on `part`.
  void Mark(StepPart part);
  // Of what was marked as `from`, so much belongs to `to`. Of a CPU alone.
  void Move(StepPart from, StepPart to, double seconds) {
    Sum(from) -= seconds;
    Sum(to) += seconds;
  }

  // On a device: of the marks that it has passed.
  double seconds(StepPart part) const { return sums_[static_cast<size_t>(part)]; }
  // By the host's clock, whatever the device.
  double total_seconds() const { return total_; }
  void Reset() {
    sums_ = {};
    total_ = 0;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct DeviceMark {
    StepPart part;
    c10::Event event;
  };

  double& Sum(StepPart part) { return sums_[static_cast<size_t>(part)]; }
  void MarkOnDevice(StepPart part);

  const c10::Device device_;
  Clock::time_point last_;
  double total_ = 0;
  std::array<double, 7> sums_{};
  std::deque<DeviceMark> marks_;    // the newest that the device has passed, and those to come
  std::vector<c10::Event> unused_;  // to be recorded again
};

}  // namespace muster::worker
