#include "controller/engine/loops/scheduler_loop.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "controller/policy/scheduler.h"

namespace muster::controller {
namespace {

// The longest time between two rounds while the next one is due at a known time.
constexpr absl::Duration kLongestRest = absl::Minutes(1);

}  // namespace

VersionLoop::Decide DecidePlans(Clock& clock, ScheduleSettings settings) {
  return [&clock, settings, scheduler = std::make_shared<Scheduler>()](const Snapshot& snapshot,
                                                                       absl::Duration now) {
    Decision decision =
        scheduler->Decide(snapshot, {.now = now, .wall = clock.Now(), .settings = settings});
    VersionLoop::Decision proposal;
    proposal.due_at = decision.due_at;
    // What is due by the wall clock is due earlier once somebody sets it forward.
    if (proposal.due_at != absl::InfiniteDuration())
      proposal.due_at = std::min(proposal.due_at, now + kLongestRest);
    if (!decision.plan.empty()) {
      proposal.event = ApplyPlan{std::move(decision.plan)};
    }
    return proposal;
  };
}

}  // namespace muster::controller
