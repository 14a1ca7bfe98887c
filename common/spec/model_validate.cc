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
        Whole("train.model.resnet18.width", model.resnet18().width(), 1, 1024);
        break;
    }
  }

 private:
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
