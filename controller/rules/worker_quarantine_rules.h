// The evidence against workers, carried out on a draft: failures and quarantine. Pure; used by
// the rules. policy/health/quarantine_rules decides.
#pragma once

#include <cstdint>
#include <string>

#include "controller/model/draft.h"
#include "controller/rules/rules.h"

namespace muster::controller {

// The failure that was just noted as the cause of the job's attempt began on this worker. Counts
// only classes that may be the worker's.
void RecordWorkerFailure(Draft& draft, const std::string& worker, uint64_t job_id,
                         const RuleContext& context);

// The job got on (a committed checkpoint, the end): with what failed before, that may be the second
// signal against a worker that it was on. What looked like an error of its program on a worker that
// it is not on now counts against that worker from here on.
void EvaluateAfterProgress(Draft& draft, uint64_t job_id, const RuleContext& context);

// Ends the worker's quarantine, if it is in one, and forgives what began there: a person trusts it
// again, and it is no longer named as exempt. The failures stay as a record.
void EndQuarantine(Draft& draft, uint64_t worker_id, const RuleContext& context);

// Likewise when its time is over. Called whenever its agent speaks.
void EndQuarantineIfDue(Draft& draft, uint64_t worker_id, const RuleContext& context);

// A worker that is exempt for its pool's sake is evaluated again a few times a minute: the pool may
// have changed, and what stood against the worker grows old. Called with each heartbeat;
// `last_word`: when its agent had spoken before. A look costs as much as the pool is large.
inline constexpr int64_t kReevaluateSeconds = 15;
void ReevaluateIfExempt(Draft& draft, uint64_t worker_id, absl::Time last_word,
                        const RuleContext& context);

}  // namespace muster::controller
