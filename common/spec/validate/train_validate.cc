#include "common/spec/validate/train_validate.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/spec/validate/spec_checks.h"
#include "common/spec/validate/token_data.h"

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
    CheckClipping(train);
    CheckLoss(train);
    CheckLossScale(train);
    Whole("train.accumulate", train.accumulate(), 1, 65536);
    if (train.memory().checkpoint_blocks() && train.model().has_mlp()) {
      Fault("train.memory.checkpoint_blocks", "is not for mlp, which has no blocks");
    }
    Whole("train.validate_every_epochs", train.validate_every_epochs(), 0, kMostEpochs);
    Whole("train.validate_every_steps", train.validate_every_steps(), 0, kMostSteps);
    Whole("train.threads_per_rank", train.threads_per_rank(), 1, 1024);
    Whole("train.report_every_steps", train.report_every_steps(), 1, 1'000'000);
    Check(train.artifacts(), train.model());
    CheckClasses(train);
    if (train.has_distill()) CheckDistill(train);
    if (train.has_prune()) CheckPrune(train);
  }

 private:
  void Check(const v1::Artifacts& artifacts, const v1::Model& model) {
    const std::string path = "train.artifacts.reconstructions_every_steps";
    Whole(path, artifacts.reconstructions_every_steps(), 0, kMostSteps);
    if (artifacts.reconstructions_every_steps() > 0 && !model.has_mae()) {
      Fault(path, "is only for the model mae");
    }
  }

  void CheckLength(const v1::Train& train) {
    if (train.has_epochs() == train.has_steps()) {
      Fault("train.epochs", train.has_steps() ? "give only one of epochs and steps"
                                              : "is required, or train.steps instead of it");
    }
    if (train.has_epochs()) Above("train.epochs", train.epochs(), 0, kMostEpochs);
    if (train.has_steps()) Whole("train.steps", train.steps(), 1, kMostSteps);
  }

  void CheckClipping(const v1::Train& train) {
    Range("train.clip_norm", train.clip_norm(), 0, 1e6);
    Range("train.clip_value", train.clip_value(), 0, 1e6);
    if (train.clip_norm() > 0 && train.clip_value() > 0)
      Fault("train.clip_value", "give only one of clip_norm and clip_value");
  }

  void CheckLoss(const v1::Train& train) {
    Below("train.label_smoothing", train.label_smoothing(), 0, 1);
    if (train.label_smoothing() > 0 && train.loss() == v1::LOSS_NAME_MSE)
      Fault("train.label_smoothing", "is only for the losses cross_entropy and bce");
  }

  // What is about a sample's class has no meaning where it has none.
  void CheckClasses(const v1::Train& train) {
    const bool tokens = TokenDataOf(train.data()).has_value();
    const bool mae = train.model().has_mae();
    if (!tokens && !mae) return;
    const auto refuse = [&](bool given, absl::string_view path, absl::string_view why) {
      if (given) Fault(path, absl::StrCat(why, ": leave it out"));
    };
    const bool other_loss = train.loss() == v1::LOSS_NAME_BCE || train.loss() == v1::LOSS_NAME_MSE;
    refuse(other_loss, "train.loss",
           mae ? "is not for mae, which makes the squared error of the hidden patches smaller"
               : "is not for text, whose loss is the cross-entropy of what follows each token");
    const absl::string_view why = mae ? "is not for mae, which learns without classes"
                                      : "is not for text, whose samples have no class";
    const bool smoothed = train.label_smoothing() > 0 && train.loss() != v1::LOSS_NAME_MSE;
    refuse(mae && smoothed, "train.label_smoothing", why);
    refuse(train.artifacts().confusion(), "train.artifacts.confusion", why);
    refuse(train.augment().mixup() > 0, "train.augment.mixup", why);
    refuse(train.augment().cutmix() > 0, "train.augment.cutmix", why);
  }

  void CheckDistill(const v1::Train& train) {
    const v1::Distill& distill = train.distill();
    const std::string path = "train.distill";
    Given(path + ".teacher", "a safetensors file or the folder of a checkpoint",
          distill.has_teacher(), distill.teacher());
    Above(path + ".temperature", distill.temperature(), 0, 1000);
    Range(path + ".alpha", distill.alpha(), 0, 1);
    if (train.loss() == v1::LOSS_NAME_MSE)
      Fault(path, "is only for the losses cross_entropy and bce");
    if (train.model().has_mae() || distill.model().has_mae())
      Fault(path, "is only for networks that tell classes or tokens apart, not for mae");
    if (distill.model().has_plugin()) Fault(path + ".model.plugin", "a teacher is no plug-in");
  }

  void CheckPrune(const v1::Train& train) {
    const v1::Prune& prune = train.prune();
    const std::string path = "train.prune.";
    if (!prune.has_sparsity()) {
      Fault(path + "sparsity", "is required");
    } else if (!(prune.sparsity() > 0 && prune.sparsity() < 1)) {
      Fault(path + "sparsity", absl::StrCat("must be above 0 and below 1; got ", prune.sparsity()));
    }
    Whole(path + "every_steps", prune.every_steps(), 1, 1'000'000'000);
    Text(path + "pattern", prune.pattern());
    if (!prune.has_end_step()) return Fault(path + "end_step", "is required");
    Whole(path + "end_step", prune.end_step(), prune.begin_step(), kMostSteps);
    if (train.has_steps() && prune.end_step() > train.steps()) {
      Fault(path + "end_step", absl::StrCat("must be at most train.steps, which is ", train.steps(),
                                            "; got ", prune.end_step()));
    }
  }

  void CheckLossScale(const v1::Train& train) {
    if (!train.has_loss_scale()) return;
    if (train.precision() != v1::PRECISION_FP16)
      return Fault("train.loss_scale", "is only for precision fp16");
    Range("train.loss_scale.initial", train.loss_scale().initial(), 1, 4294967296.0);
    Whole("train.loss_scale.growth_interval", train.loss_scale().growth_interval(), 1,
          1'000'000'000);
    Whole("train.loss_scale.max_skips", train.loss_scale().max_skips(), 1, 1000);
  }
};

}  // namespace

void ValidateTrain(const v1::Train& train, std::vector<SpecFault>& faults) {
  ValidateModel(train, faults);
  ValidateData(train, faults);
  TrainValidator(faults).Check(train);
  ValidateOptimizer(train, faults);
  ValidateWeights(train, faults);
}

}  // namespace muster
