#include "common/spec/validate/train_paths.h"

namespace muster {

void ForEachTrainPath(v1::Train& train,
                      const std::function<void(const char* key, std::string& path)>& visit) {
  const auto look = [&visit](const char* key, auto* message) {
    if (message != nullptr && message->has_path()) visit(key, *message->mutable_path());
  };
  look("train.weights.path", train.has_weights() ? train.mutable_weights() : nullptr);
  if (train.has_model()) {
    v1::Model& model = *train.mutable_model();
    look("train.model.torchscript.path",
         model.has_torchscript() ? model.mutable_torchscript() : nullptr);
    look("train.model.plugin.path", model.has_plugin() ? model.mutable_plugin() : nullptr);
  }
  if (train.has_distill()) {
    v1::Distill& distill = *train.mutable_distill();
    if (distill.has_teacher()) visit("train.distill.teacher", *distill.mutable_teacher());
    if (distill.has_model()) {
      v1::Model& teacher = *distill.mutable_model();
      look("train.distill.model.torchscript.path",
           teacher.has_torchscript() ? teacher.mutable_torchscript() : nullptr);
      look("train.distill.model.plugin.path",
           teacher.has_plugin() ? teacher.mutable_plugin() : nullptr);
    }
  }
  if (train.has_data()) {
    v1::Data& data = *train.mutable_data();
    look("train.data.digits.path", data.has_digits() ? data.mutable_digits() : nullptr);
    look("train.data.cifar_bin.path", data.has_cifar_bin() ? data.mutable_cifar_bin() : nullptr);
    look("train.data.numpy.path", data.has_numpy() ? data.mutable_numpy() : nullptr);
    look("train.data.text.path", data.has_text() ? data.mutable_text() : nullptr);
    look("train.data.tokens.path", data.has_tokens() ? data.mutable_tokens() : nullptr);
  }
}

}  // namespace muster
