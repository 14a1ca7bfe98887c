// Records failures of workers in a draft, and begins and ends quarantines. Pure; used by the rules.
// policy/health/quarantine_rules decides.
#pragma once

#include <cstdint>
#include <string>

#include "controller/model/draft.h"
#include "controller/rules/rules.h"

namespace muster::controller {

// The failure that was just noted as the cause of the job's attempt began on this worker. Counts
// only classes that may be the worker's. May begin a quarantine.
void RecordWorkerFailure(Draft& draft, const std::string& worker, uint64_t job_id,
                         const RuleContext& context);

// The job got on (a committed checkpoint, the end): with what failed before, that may be the second
// signal against a worker that it was on. What looked like an error of its program on a worker that
// it is not on now counts against that worker from here on. May begin a quarantine.
void EvaluateAfterProgress(Draft& draft, uint64_t job_id, const RuleContext& context);

// Ends the worker's quarantine, if it is in one, and forgives what began there: a person trusts it
// again, and it is no longer named as exempt. The failures stay as a record.
void EndQuarantine(Draft& draft, uint64_t worker_id, const RuleContext& context);

// Ends the quarantine if its time is over. Called with each Hello and heartbeat.
void EndQuarantineIfDue(Draft& draft, uint64_t worker_id, const RuleContext& context);

// A worker that was kept out of quarantine because too much of its pool is in it is evaluated again
// every kReevaluateSeconds: the pool may have changed, and failures grow old. Called with each
// heartbeat; `last_word`: the time of the message before. Cost: linear in the number of workers.
inline constexpr int64_t kReevaluateSeconds = 15;
void ReevaluateIfExempt(Draft& draft, uint64_t worker_id, absl::Time last_word,
                        const RuleContext& context);

}  // namespace muster::controller
