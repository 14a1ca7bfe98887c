#include "controller/engine/scheduler_loop.h"

#include <memory>
#include <utility>

#include "controller/policy/scheduler.h"

namespace muster::controller {

Proposer::Propose ProposePlans(Clock& clock, ScheduleSettings settings) {
  return [&clock, settings, scheduler = std::make_shared<Scheduler>()](const Snapshot& snapshot,
                                                                       absl::Duration now) {
    Decision decision =
        scheduler->Decide(snapshot, {.now = now, .wall = clock.Now(), .settings = settings});
    Proposer::Proposal proposal;
    proposal.due_at = decision.due_at;
    if (!decision.plan.empty()) {
      proposal.event = ApplyPlan{std::move(decision.plan)};
    }
    return proposal;
  };
}

}  // namespace muster::controller
