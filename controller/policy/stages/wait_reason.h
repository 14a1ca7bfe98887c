// The sixth stage: why a job waits, for people. The stages give ScheduleSettings::max_messages
// reasons a round at most, from the front of the queue, unchanged ones included; `explain` works it
// out for the rest. Pure.
#pragma once

#include <string>

#include "controller/policy/health/eligibility.h"
#include "controller/policy/stages/round.h"

namespace muster::controller {

bool HasWaitReasonsLeft(const Round& round);

// Does nothing for a job that is not PENDING, or when no reasons are left.
void SetWaitReason(Round& round, const Job& job, std::string message);
// The same for the jobs of the candidate's group that come after it.
void SetWaitReasonOfRest(Round& round, const Candidate& candidate, const std::string& message);

// What the candidate's partitions have, and who else gets some of it.
struct Supply {
  Capacity all;
  std::string others;  // ", 2 of them kept for job 7 until ..."
};
// Nothing when no reason would be given.
Supply SupplyFor(const Round& round, const Candidate& candidate);

// Sets the wait reason: what the candidate lacks. `supply`: what there was before slots were
// reserved for it; `for_group`: also that of the jobs of its group that come after it.
void ExplainWait(Round& round, const Candidate& candidate, const Supply& supply, bool for_group);

}  // namespace muster::controller
