// How batches are made ahead of their steps, and what that takes of memory.
//
// The loader says how it is worth doing; where the job gives its data a limit, the plan is made to
// fit it before the first batch. Pure.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace muster::worker {

// Of one BatchQueue.
struct AheadPlan {
  int64_t batches = 0;  // 0: none, each when it is asked for
  int threads = 0;      // that make their samples; 0 without batches: who asks for one makes it

  friend bool operator==(const AheadPlan&, const AheadPlan&) = default;
};

// Of a rank, in bytes of the host.
struct DataNeeds {
  int64_t held = 0;              // whatever the plan: the data set in memory, blocks from afar
  int64_t batch = 0;             // of a step
  int64_t evaluation_batch = 0;  // of an evaluation
  int64_t thread = 0;            // what each thread reads and decodes with
};

// Batches that are made, in the making and in use, and the threads that make them.
int64_t TrainingBytes(const AheadPlan& plan, const DataNeeds& needs);
int64_t EvaluationBytes(const AheadPlan& plan, const DataNeeds& needs);
// All of it: an evaluation begins while the batches of the next steps wait, and while the step's
// own is still there.
int64_t DataBytes(const AheadPlan& plan, const DataNeeds& needs);

// The plan, or what of it fits into `limit` bytes: first fewer batches, then fewer threads, at last
// no batch ahead: a thread makes each when it is asked for. RESOURCE_EXHAUSTED with the numbers
// where not even that fits.
absl::StatusOr<AheadPlan> FitAhead(AheadPlan plan, const DataNeeds& needs, int64_t limit);

}  // namespace muster::worker
