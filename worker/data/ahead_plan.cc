#include "worker/data/ahead_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/units.h"

namespace muster::worker {
namespace {

std::string Human(int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

// Without threads of its own a queue's samples are made by who asks for them.
int64_t ThreadBytes(const AheadPlan& plan, const DataNeeds& needs) {
  return std::max(plan.threads, 1) * needs.thread;
}

AheadPlan Less(const AheadPlan& plan) {
  if (plan.batches > 1) return {plan.batches - 1, plan.threads};
  if (plan.threads > 1) return {plan.batches, plan.threads - 1};
  return {0, plan.threads};
}

}  // namespace

int64_t TrainingBytes(const AheadPlan& plan, const DataNeeds& needs) {
  return (1 + plan.batches) * needs.batch + ThreadBytes(plan, needs);
}

int64_t EvaluationBytes(const AheadPlan& plan, const DataNeeds& needs) {
  return (1 + plan.batches) * needs.evaluation_batch + ThreadBytes(plan, needs);
}

int64_t DataBytes(const AheadPlan& plan, const DataNeeds& needs) {
  return needs.held + TrainingBytes(plan, needs) + EvaluationBytes(plan, needs);
}

absl::StatusOr<AheadPlan> FitAhead(AheadPlan plan, const DataNeeds& needs, int64_t limit) {
  while (DataBytes(plan, needs) > limit) {
    if (plan.batches == 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "is ", Human(limit), ", and without a batch ahead each rank needs ",
          Human(DataBytes(plan, needs)), " for its data: ", Human(needs.held), " held, ",
          Human(needs.batch), " for a batch, ", Human(needs.evaluation_batch),
          " for one of validation, and twice ", Human(needs.thread),
          " to read and decode with; give it that, or try a smaller train.batch_size, or more "
          "ranks"));
    }
    plan = Less(plan);
  }
  return plan;
}

}  // namespace muster::worker
