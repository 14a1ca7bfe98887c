#include <string>

#include "absl/strings/str_cat.h"
#include "common/spec/spec_checks.h"
#include "common/spec/train_validate.h"

namespace muster {
namespace {

class OptimizerValidator : public SpecChecks {
 public:
  using SpecChecks::SpecChecks;

  void Check(const v1::Optimizer& optimizer) {
    const std::string path = "train.optimizer.";
    Above(path + "lr", optimizer.lr(), 0, 1000);
    Range(path + "weight_decay", optimizer.weight_decay(), 0, 100);
    const bool sgd = optimizer.name() == v1::Optimizer::NAME_SGD;
    const auto only = [&](bool given, bool fits, const char* field, const char* name) {
      if (given && !fits) Fault(path + field, absl::StrCat("is only for the optimizer ", name));
      return given && fits;
    };
    if (only(optimizer.has_momentum(), sgd, "momentum", "sgd")) {
      Below(path + "momentum", optimizer.momentum(), 0, 1);
    }
    if (only(optimizer.has_nesterov(), sgd, "nesterov", "sgd") && optimizer.nesterov() &&
        optimizer.momentum() == 0) {
      Fault(path + "nesterov", "needs a momentum above 0");
    }
    if (only(optimizer.has_beta1(), !sgd, "beta1", "adamw"))
      Below(path + "beta1", optimizer.beta1(), 0, 1);
    if (only(optimizer.has_beta2(), !sgd, "beta2", "adamw"))
      Below(path + "beta2", optimizer.beta2(), 0, 1);
    if (only(optimizer.has_eps(), !sgd, "eps", "adamw")) Above(path + "eps", optimizer.eps(), 0, 1);
  }

  void Check(const v1::Schedule& schedule, const v1::Train& train) {
    Whole("train.schedule.warmup_steps", schedule.warmup_steps(), 0, kMostSteps);
    if (train.has_steps() && schedule.warmup_steps() > train.steps()) {
      Fault("train.schedule.warmup_steps",
            absl::StrCat("must be at most train.steps, which is ", train.steps(), "; got ",
                         schedule.warmup_steps()));
    }
    Range("train.schedule.final_fraction", schedule.final_fraction(), 0, 1);
  }
};

}  // namespace

void ValidateOptimizer(const v1::Train& train, std::vector<SpecFault>& faults) {
  OptimizerValidator validator(faults);
  validator.Check(train.optimizer());
  validator.Check(train.schedule(), train);
}

}  // namespace muster
