#include "common/spec/train_validate.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/spec/spec_checks.h"

namespace muster {
namespace {

constexpr uint64_t kMostSampleValues = 1ull << 26;

class TrainValidator : public SpecChecks {
 public:
  using SpecChecks::SpecChecks;

  void Check(const v1::Train& train) {
    switch (train.model().kind_case()) {
      case v1::Model::KIND_NOT_SET:
        Fault("train.model", "is required: one of mlp, resnet18");
        break;
      case v1::Model::kMlp:
        Check(train.model().mlp());
        break;
      case v1::Model::kResnet18:
        Whole("train.model.resnet18.width", train.model().resnet18().width(), 1, 1024);
        break;
    }
    switch (train.data().source_case()) {
      case v1::Data::SOURCE_NOT_SET:
        Fault("train.data", "is required: one of synthetic, digits");
        break;
      case v1::Data::kSynthetic:
        Check(train.data().synthetic(), train.model().has_resnet18());
        break;
      case v1::Data::kDigits:
        Check(train.data().digits());
        break;
    }
    if (!train.has_batch_size()) {
      Fault("train.batch_size", "is required");
    } else {
      Whole("train.batch_size", train.batch_size(), 1, 1 << 24);
    }
    CheckLength(train);
    Check(train.optimizer());
    Check(train.schedule(), train);
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

  void Check(const v1::Mlp& mlp) {
    if (mlp.hidden_size() > 64) {
      Fault("train.model.mlp.hidden",
            absl::StrCat("must have at most 64 layers; got ", mlp.hidden_size()));
    }
    for (int i = 0; i < mlp.hidden_size(); ++i) {
      Whole(absl::StrCat("train.model.mlp.hidden[", i, "]"), mlp.hidden(i), 1, 65536);
    }
  }

  void Check(const v1::Synthetic& synthetic, bool pictures_only) {
    // A tenth each for validation and test must be at least one sample.
    Whole("train.data.synthetic.samples", synthetic.samples(), 10, 1'000'000'000);
    Whole("train.data.synthetic.classes", synthetic.classes(), 2, 100'000);
    const std::string path = "train.data.synthetic.shape";
    if (synthetic.shape_size() != 1 && synthetic.shape_size() != 3) {
      Fault(path, absl::StrCat("must be [features] or [channels, height, width]; got ",
                               synthetic.shape_size(), " numbers"));
    } else if (pictures_only && synthetic.shape_size() != 3) {
      Fault(path, "must be [channels, height, width] for resnet18; got 1 number");
    }
    uint64_t values = 1;
    for (int i = 0; i < synthetic.shape_size(); ++i) {
      const size_t before = faults().size();
      Whole(absl::StrCat(path, "[", i, "]"), synthetic.shape(i), 1, 1 << 20);
      if (faults().size() != before) return;
      values = std::min(values * synthetic.shape(i), kMostSampleValues + 1);
    }
    if (values > kMostSampleValues) {
      Fault(path, absl::StrCat("must multiply to at most ", kMostSampleValues, " values a sample"));
    }
  }

  void Check(const v1::Digits& digits) {
    if (!digits.has_path()) {
      Fault("train.data.digits.path", "is required: the folder that holds digits.csv");
    } else {
      Path("train.data.digits.path", digits.path());
    }
    const uint32_t size = digits.image_size();
    if (size != 8 && size != 16 && size != 24 && size != 32) {
      Fault("train.data.digits.image_size", absl::StrCat("must be 8, 16, 24 or 32; got ", size));
    }
  }

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

void ValidateTrain(const v1::Train& train, std::vector<SpecFault>& faults) {
  TrainValidator(faults).Check(train);
}

}  // namespace muster
