#include "controller/engine/forget_loop.h"

#include <memory>
#include <utility>

#include "controller/policy/ended_jobs.h"

namespace muster::controller {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(1);

}  // namespace

Proposer::Propose ProposeForgetting(const ForgetSettings& settings, absl::Duration start) {
  return [settings, queue = std::make_shared<EndedJobsQueue>(start)](const Snapshot& snapshot,
                                                                     absl::Duration now) {
    Proposer::Proposal proposal;
    if (!settings.ForgetsAny()) return proposal;
    proposal.due_at = now + kLookEvery;
    ForgetJobs next = queue->Next(snapshot, settings, now);
    if (!next.jobs.empty()) proposal.event = std::move(next);
    return proposal;
  };
}

}  // namespace muster::controller
