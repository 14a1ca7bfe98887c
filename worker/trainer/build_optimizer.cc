#include "worker/trainer/compose.h"

namespace muster::worker {
std::unique_ptr<Optimizer> BuildOptimizer(const trainer_spec::Optimizer& spec, const Model& model) {
  std::vector<OptimizerTensor> parameters;
  for (const ModelTensor& entry : model.parameters())
    parameters.push_back({entry.name, entry.tensor});
  if (spec.name == trainer_spec::OptimizerName::kSgd) {
    return MakeSgd({spec.momentum, spec.nesterov, spec.weight_decay}, parameters);
  }
  return MakeAdamW({spec.beta1, spec.beta2, spec.eps, spec.weight_decay}, parameters);
}

}  // namespace muster::worker
