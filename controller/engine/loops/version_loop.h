// What the loops of the scheduler, of retention, of archiving and of roots have in common: at each
// new version they decide on one event and wait until it is applied. After a refusal (a full disk)
// they wait a little. Where a part of an event was void by the time that it was applied, they
// decide again a little later, though nothing else changes. After a run of at least kLongRun they
// sleep as long as it took, so that a flood of changes to a long queue leaves half a core to
// others; one run then sees several changes.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "controller/engine/engine.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/events.h"

namespace muster::controller {

class VersionLoop {
 public:
  static constexpr absl::Duration kRetryAfter = absl::Seconds(1);
  static constexpr absl::Duration kLongRun = absl::Milliseconds(1);

  struct Decision {
    std::optional<Event> event;  // none: nothing to do
    absl::Duration due_at =
        absl::InfiniteDuration();  // since boot: run again then, even if nothing changed
  };
  struct Wiring {
    std::function<std::shared_ptr<const Snapshot>()> snapshot;
    std::function<void(Event, EventDone)> post;
    std::function<void()> wake_up;  // runs RunOnce soon
  };
  // `decide` takes the snapshot and the time since boot. Pure, but for the loop that archives jobs.
  using Decide = std::function<Decision(const Snapshot&, absl::Duration)>;

  VersionLoop(Clock& clock, Wiring wiring, Decide decide)
      : clock_(clock), wiring_(std::move(wiring)), decide_(std::move(decide)) {}

  // Returns how long to wait for the next run, unless something changes before. One thread.
  absl::Duration RunOnce();

 private:
  // Shared with the answers on their way: they may come after the loop has ended.
  struct Flight {
    Mutex mutex;
    bool in_flight MUSTER_GUARDED_BY(mutex) = false;
    absl::Duration retry_at MUSTER_GUARDED_BY(mutex) = -absl::InfiniteDuration();
    bool retry MUSTER_GUARDED_BY(mutex) = false;
    bool partly_void MUSTER_GUARDED_BY(mutex) = false;
  };

  Clock& clock_;
  const Wiring wiring_;
  const Decide decide_;
  const std::shared_ptr<Flight> flight_ = std::make_shared<Flight>();
  uint64_t seen_version_ = 0;  // durable_version of the last run
  bool looked_ = false;
  absl::Duration rest_until_ = -absl::InfiniteDuration();
  absl::Duration due_at_ = absl::InfiniteDuration();
};

}  // namespace muster::controller
