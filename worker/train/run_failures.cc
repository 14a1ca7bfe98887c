#include "worker/train/run_failures.h"

#include "absl/strings/str_cat.h"
#include "worker/train/run/failure.h"

namespace muster::worker {

absl::Status NonFinite(const StepResult& result) {
  if (result.skipped) {
    return Classify(
        absl::FailedPreconditionError(absl::StrCat(
            "step ", result.step + 1, ": the gradient overflowed fp16 in ", result.skips_in_row,
            " steps in a row, the loss scale is down to ", result.loss_scale, " (loss ",
            result.loss, "): try train.precision bf16 or a lower train.optimizer.lr")),
        kNonFinite);
  }
  return Classify(
      absl::FailedPreconditionError(absl::StrCat(
          "step ", result.step + 1, ": loss or gradient is not finite (loss ", result.loss,
          ", gradient norm ", result.grad_norm,
          "): try a lower train.optimizer.lr, train.schedule.warmup_steps or train.clip_norm")),
      kNonFinite);
}

absl::Status OutOfMemory(const absl::Status& thrown, const MemoryEstimate& memory,
                         const Recipe& recipe) {
  return Classify(
      absl::Status(thrown.code(), absl::StrCat(thrown.message(), "; ", MemoryNeed(memory, recipe))),
      kOutOfMemory);
}

absl::Status NothingBest(const RunState& run) {
  return Classify(absl::FailedPreconditionError(absl::StrCat(
                      "step ", run.step,
                      ": the run is at its end, and the loss of every validation was not a "
                      "number: look at the validation data, or try a lower train.optimizer.lr")),
                  kNonFinite);
}

absl::Status NothingLeft(int64_t step, const Recipe& recipe) {
  return Classify(absl::FailedPreconditionError(absl::StrCat(
                      "the checkpoint that it goes on from (checkpoint.resume_from) is of step ",
                      step, ", and it ends after ", recipe.total_steps,
                      ": ask for more train.steps or train.epochs, or go on from an earlier one")),
                  kDataError);
}

}  // namespace muster::worker
