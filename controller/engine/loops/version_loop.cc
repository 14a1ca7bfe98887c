#include "controller/engine/loops/version_loop.h"

#include <algorithm>
#include <utility>

namespace muster::controller {

absl::Duration VersionLoop::RunOnce() {
  const absl::Duration now = clock_.SinceBoot();
  if (rest_until_ > now) return rest_until_ - now;
  bool again = false;
  {
    MutexLock lock(flight_->mutex);
    if (flight_->in_flight) return absl::InfiniteDuration();
    if (flight_->retry_at > now) return flight_->retry_at - now;
    again = std::exchange(flight_->retry, false);
    if (std::exchange(flight_->partly_void, false)) due_at_ = std::min(due_at_, now + kRetryAfter);
  }
  const std::shared_ptr<const Snapshot> snapshot = wiring_.snapshot();
  const bool changed = !looked_ || snapshot->durable_version != seen_version_;
  if (!changed && !again && now < due_at_) return due_at_ - now;
  looked_ = true;
  seen_version_ = snapshot->durable_version;

  Decision proposal = decide_(*snapshot, now);
  const absl::Duration looked_until = clock_.SinceBoot();
  const absl::Duration took = looked_until - now;
  if (took >= kLongRun) rest_until_ = looked_until + took;
  due_at_ = proposal.due_at;
  if (!proposal.event.has_value()) return due_at_ - now;
  {
    MutexLock lock(flight_->mutex);
    flight_->in_flight = true;
  }
  wiring_.post(*std::move(proposal.event), [flight = flight_, wake_up = wiring_.wake_up,
                                            &clock = clock_](const EventResult& result) {
    {
      MutexLock lock(flight->mutex);
      flight->in_flight = false;
      flight->retry = !result.status.ok();
      flight->partly_void = result.partly_void;
      if (flight->retry) flight->retry_at = clock.SinceBoot() + kRetryAfter;
    }
    wake_up();
  });
  return absl::InfiniteDuration();
}

}  // namespace muster::controller
