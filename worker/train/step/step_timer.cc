#include "worker/train/step/step_timer.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace muster::worker {

void StepTimer::Mark(StepPart part) {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  total_ += seconds;
  device_.is_cpu() ? void(Sum(part) += seconds) : MarkOnDevice(part);
}

void StepTimer::MarkOnDevice(StepPart part) {
  if (unused_.empty()) unused_.emplace_back(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  DeviceMark& mark = marks_.emplace_back(DeviceMark{part, std::move(unused_.back())});
  unused_.pop_back();
  mark.event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  while (marks_.size() > 1 && marks_[1].event.query()) {
    constexpr double kSecondsPerMillisecond = 1e-3;
    Sum(marks_[1].part) += marks_[0].event.elapsedTime(marks_[1].event) * kSecondsPerMillisecond;
    unused_.push_back(std::move(marks_[0].event));
    marks_.pop_front();
  }
}

}  // namespace muster::worker
