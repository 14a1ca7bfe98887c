#include <string>

#include "absl/strings/str_cat.h"
#include "common/spec/spec_checks.h"
#include "common/spec/train_validate.h"

namespace muster {
namespace {

class ModelValidator : public SpecChecks {
 public:
  using SpecChecks::SpecChecks;

  void Check(const v1::Model& model) {
    switch (model.kind_case()) {
      case v1::Model::KIND_NOT_SET:
        Fault("train.model",
              absl::StrCat("is required: one of ", MembersOf(*v1::Model::descriptor(), "kind")));
        break;
      case v1::Model::kMlp:
        Check(model.mlp());
        break;
      case v1::Model::kResnet18:
        Check("train.model.resnet18", model.resnet18());
        break;
      case v1::Model::kResnet34:
        Check("train.model.resnet34", model.resnet34());
        break;
      case v1::Model::kResnet50:
        Check("train.model.resnet50", model.resnet50());
        break;
      case v1::Model::kResnet101:
        Check("train.model.resnet101", model.resnet101());
        break;
    }
  }

 private:
  void Check(absl::string_view path, const v1::ResNet& resnet) {
    Whole(absl::StrCat(path, ".width"), resnet.width(), 1, 1024);
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
};

}  // namespace

void ValidateModel(const v1::Train& train, std::vector<SpecFault>& faults) {
  ModelValidator(faults).Check(train.model());
}

}  // namespace muster
