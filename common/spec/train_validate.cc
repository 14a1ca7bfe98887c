#include "common/spec/train_validate.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/spec/spec_checks.h"

namespace muster {
namespace {

class TrainValidator : public SpecChecks {
 public:
  using SpecChecks::SpecChecks;

  void Check(const v1::Train& train) {
    if (!train.has_batch_size()) {
      Fault("train.batch_size", "is required");
    } else {
      Whole("train.batch_size", train.batch_size(), 1, 1 << 24);
    }
    CheckLength(train);
    Range("train.clip_norm", train.clip_norm(), 0, 1e6);
    Below("train.label_smoothing", train.label_smoothing(), 0, 1);
    Whole("train.validate_every_epochs", train.validate_every_epochs(), 0, kMostEpochs);
    Whole("train.validate_every_steps", train.validate_every_steps(), 0, kMostSteps);
    Whole("train.threads_per_rank", train.threads_per_rank(), 1, 1024);
    Whole("train.report_every_steps", train.report_every_steps(), 1, 1'000'000);
  }

 private:
  void CheckLength(const v1::Train& train) {
    if (train.has_epochs() == train.has_steps()) {
      Fault("train.epochs", train.has_steps() ? "give only one of epochs and steps"
                                              : "is required, or train.steps instead of it");
    }
    if (train.has_epochs()) Above("train.epochs", train.epochs(), 0, kMostEpochs);
    if (train.has_steps()) Whole("train.steps", train.steps(), 1, kMostSteps);
  }
};

}  // namespace

void ValidateTrain(const v1::Train& train, std::vector<SpecFault>& faults) {
  ValidateModel(train, faults);
  ValidateData(train, faults);
  TrainValidator(faults).Check(train);
  ValidateOptimizer(train, faults);
}

}  // namespace muster
