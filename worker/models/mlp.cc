#include "worker/models/mlp.h"

#include "absl/strings/str_cat.h"
#include "worker/models/layers/dense.h"
#include "worker/models/layers/init.h"

namespace muster::worker {
namespace {

class Mlp final : public Model {
 public:
  Mlp(const MlpConfig& config, const ModelContext& context) {
    int64_t features = 1;
    for (const int64_t extent : context.input_shape) features *= extent;
    std::vector<int64_t> widths = config.hidden;
    widths.push_back(context.classes);
    Initializer init(context.seed, context.device);
    for (size_t i = 0; i < widths.size(); ++i) {
      // ReLU layers take every other index of the reference's Sequential.
      const std::string index = absl::StrCat(2 * i);
      Layer layer;
      layer.weight =
          AddParameter(index + ".weight", init.LinearWeight(widths[i], features), context.device);
      layer.bias =
          AddParameter(index + ".bias", init.LinearBias(widths[i], features), context.device);
      layers_.push_back(layer);
      features = widths[i];
    }
  }

  ModelOutput Forward(const at::Tensor& inputs) override {
    at::Tensor x_BF = inputs.dim() == 2 ? inputs : inputs.flatten(1);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const bool last = i + 1 == layers_.size();
      x_BF = Dense(x_BF, layers_[i].weight, layers_[i].bias,
                   last ? Activation::kNone : Activation::kRelu);
    }
    return {x_BF};
  }

 private:
  struct Layer {
    at::Tensor weight;  // [out, in]
    at::Tensor bias;    // [out]
  };
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<Model> MakeMlp(const MlpConfig& config, const ModelContext& context) {
  return std::make_unique<Mlp>(config, context);
}

}  // namespace muster::worker
