#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/spec/validate/spec_checks.h"
#include "common/spec/validate/train_validate.h"

namespace muster {
namespace {

using Name = v1::Optimizer::Name;

// Which optimizers a setting belongs to, and how faults call them.
struct Owners {
  std::vector<Name> names;
  const char* text;
};
const Owners kMomentum = {{v1::Optimizer::NAME_SGD, v1::Optimizer::NAME_LARS}, "sgd and lars"};
const Owners kNesterov = {{v1::Optimizer::NAME_SGD}, "sgd"};
const Owners kBetas = {{v1::Optimizer::NAME_ADAM, v1::Optimizer::NAME_ADAMW,
                        v1::Optimizer::NAME_LAMB, v1::Optimizer::NAME_LION},
                       "adam, adamw, lamb and lion"};
const Owners kEps = {
    {v1::Optimizer::NAME_ADAM, v1::Optimizer::NAME_ADAMW, v1::Optimizer::NAME_LAMB},
    "adam, adamw and lamb"};
const Owners kTrust = {{v1::Optimizer::NAME_LARS}, "lars"};

class OptimizerValidator : public SpecChecks {
 public:
  using SpecChecks::SpecChecks;

  void Check(const v1::Optimizer& optimizer) {
    CheckRate(optimizer);
    Range(At("weight_decay"), optimizer.weight_decay(), 0, 100);
    Above(At("layer_decay"), optimizer.layer_decay(), 0, 1);
    const auto only = [&](bool given, const Owners& owners, const char* field) {
      const bool fits = std::count(owners.names.begin(), owners.names.end(), optimizer.name()) > 0;
      if (given && !fits) Fault(At(field), absl::StrCat("is only for the optimizer ", owners.text));
      return given && fits;
    };
    if (only(optimizer.has_momentum(), kMomentum, "momentum")) {
      Below(At("momentum"), optimizer.momentum(), 0, 1);
    }
    if (only(optimizer.has_nesterov(), kNesterov, "nesterov") && optimizer.nesterov() &&
        optimizer.momentum() == 0) {
      Fault(At("nesterov"), "needs a momentum above 0");
    }
    if (only(optimizer.has_beta1(), kBetas, "beta1")) Below(At("beta1"), optimizer.beta1(), 0, 1);
    if (only(optimizer.has_beta2(), kBetas, "beta2")) Below(At("beta2"), optimizer.beta2(), 0, 1);
    if (only(optimizer.has_eps(), kEps, "eps")) Above(At("eps"), optimizer.eps(), 0, 1);
    if (only(optimizer.has_trust_coefficient(), kTrust, "trust_coefficient")) {
      Above(At("trust_coefficient"), optimizer.trust_coefficient(), 0, 1000);
    }
    Count(At("groups"), optimizer.groups_size(), 64);
    for (int i = 0; i < optimizer.groups_size(); ++i) {
      Check(absl::StrCat(At("groups["), i, "]."), optimizer.groups(i));
    }
  }

  void Check(const v1::Schedule& schedule, const v1::Train& train) {
    const std::string path = "train.schedule.";
    Whole(path + "warmup_steps", schedule.warmup_steps(), 0, kMostSteps);
    if (train.has_steps() && schedule.warmup_steps() > train.steps()) {
      Fault(path + "warmup_steps", absl::StrCat("must be at most train.steps, which is ",
                                                train.steps(), "; got ", schedule.warmup_steps()));
    }
    Range(path + "final_fraction", schedule.final_fraction(), 0, 1);
    Range(path + "start_fraction", schedule.start_fraction(), 0, 1);
    const auto only = [&](bool given, v1::Schedule::Name name, const char* field,
                          const char* text) {
      if (given && schedule.name() != name)
        Fault(path + field, absl::StrCat("is only for the schedule ", text));
      return given && schedule.name() == name;
    };
    if (schedule.name() == v1::Schedule::NAME_ONE_CYCLE && schedule.warmup_steps() > 0) {
      Fault(path + "warmup_steps", "is not for one_cycle, which warms up by itself");
    }
    if (only(schedule.has_gamma(), v1::Schedule::NAME_STEP, "gamma", "step"))
      Above(path + "gamma", schedule.gamma(), 0, 1);
    if (only(schedule.has_power(), v1::Schedule::NAME_POLYNOMIAL, "power", "polynomial"))
      Above(path + "power", schedule.power(), 0, 100);
    if (only(schedule.has_rise_fraction(), v1::Schedule::NAME_ONE_CYCLE, "rise_fraction",
             "one_cycle") &&
        !(schedule.rise_fraction() > 0 && schedule.rise_fraction() < 1)) {
      Fault(path + "rise_fraction",
            absl::StrCat("must be above 0 and below 1; got ", schedule.rise_fraction()));
    }
    CheckMilestones(schedule);
  }

 private:
  static std::string At(const char* field) { return absl::StrCat("train.optimizer.", field); }

  void CheckRate(const v1::Optimizer& optimizer) {
    if (!optimizer.has_base_lr()) {
      Above(At("lr"), optimizer.lr(), 0, 1000);
      if (optimizer.has_base_batch()) Fault(At("base_batch"), "needs base_lr");
      return;
    }
    if (optimizer.has_lr()) Fault(At("base_lr"), "give only one of lr and base_lr");
    Above(At("base_lr"), optimizer.base_lr(), 0, 1000);
    Whole(At("base_batch"), optimizer.base_batch(), 1, 1 << 24);
  }

  void Check(const std::string& path, const v1::ParameterGroup& group) {
    if (group.pattern().empty()) {
      Fault(path + "pattern", "is required: a shell pattern of parameter names, such as layer4.*");
    } else {
      Text(path + "pattern", group.pattern());
    }
    if (group.frozen()) {
      if (group.has_lr_scale()) Fault(path + "lr_scale", "is not for a frozen group");
      if (group.has_weight_decay()) Fault(path + "weight_decay", "is not for a frozen group");
      return;
    }
    Above(path + "lr_scale", group.lr_scale(), 0, 1000);
    Range(path + "weight_decay", group.weight_decay(), 0, 100);
  }

  void CheckMilestones(const v1::Schedule& schedule) {
    const std::string path = "train.schedule.milestones";
    if (schedule.name() != v1::Schedule::NAME_STEP) {
      if (!schedule.milestones().empty()) Fault(path, "is only for the schedule step");
      return;
    }
    if (schedule.milestones().empty()) {
      return Fault(path, "is required: the steps at which the learning rate falls");
    }
    Count(path, schedule.milestones_size(), 1000);
    for (int i = 0; i < schedule.milestones_size(); ++i) {
      const size_t before = faults().size();
      Whole(absl::StrCat(path, "[", i, "]"), schedule.milestones(i), 1, kMostSteps);
      if (faults().size() != before) return;
      if (i > 0 && schedule.milestones(i) <= schedule.milestones(i - 1)) {
        return Fault(absl::StrCat(path, "[", i, "]"), "must be above the one before it");
      }
    }
  }
};

}  // namespace

void ValidateOptimizer(const v1::Train& train, std::vector<SpecFault>& faults) {
  OptimizerValidator validator(faults);
  validator.Check(train.optimizer());
  validator.Check(train.schedule(), train);
}

}  // namespace muster
