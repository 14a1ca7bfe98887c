// Runs at a fixed interval and posts what it found as one event. While that is unanswered it posts
// nothing more, so that it takes one place in the applier's queue, however much there is to find.
// Used by the limits loop and the liveness loop.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "controller/engine/engine.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/events.h"

namespace muster::controller {

class FindingsLoop {
 public:
  // `wake_up` runs RunOnce soon.
  struct Wiring {
    std::function<std::shared_ptr<const Snapshot>()> snapshot;
    std::function<void(Event, EventDone)> post;
    std::function<void()> wake_up;
  };
  // Returns at most Findings::kMost.
  using Find = std::function<std::vector<Finding>(const Snapshot&)>;

  FindingsLoop(absl::Duration every, Wiring wiring, Find find)
      : every_(every), wiring_(std::move(wiring)), find_(std::move(find)) {}

  // Returns how long to wait for the next run. One thread.
  absl::Duration RunOnce() {
    {
      MutexLock lock(flight_->mutex);
      if (flight_->in_flight) return every_;
    }
    Findings findings{.found = find_(*wiring_.snapshot())};
    if (findings.found.empty()) return every_;
    const bool is_full = findings.found.size() >= Findings::kMost;
    {
      MutexLock lock(flight_->mutex);
      flight_->in_flight = true;
    }
    wiring_.post(std::move(findings),
                 [flight = flight_, wake_up = wiring_.wake_up, is_full](const EventResult& result) {
                   {
                     MutexLock lock(flight->mutex);
                     flight->in_flight = false;
                   }
                   // There may be more. After a refusal (a full disk or queue) the next turn is
                   // soon enough.
                   if (is_full && result.status.ok()) wake_up();
                 });
    return every_;
  }

 private:
  // Shared with the answer on its way: it may come after the loop has ended.
  struct Flight {
    Mutex mutex;
    bool in_flight MUSTER_GUARDED_BY(mutex) = false;
  };

  const absl::Duration every_;
  const Wiring wiring_;
  const Find find_;
  const std::shared_ptr<Flight> flight_ = std::make_shared<Flight>();
};

}  // namespace muster::controller
