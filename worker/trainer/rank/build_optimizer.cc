#include "common/base/status_macros.h"
#include "worker/optim/parameter_groups.h"
#include "worker/train/run/failure.h"
#include "worker/trainer/rank/compose.h"

namespace muster::worker {
namespace {

GroupingConfig Grouping(const trainer_spec::Optimizer& spec) {
  GroupingConfig config;
  for (const trainer_spec::ParameterGroup& group : spec.groups)
    config.groups.push_back({group.pattern, group.lr_scale, group.weight_decay, group.frozen});
  config.weight_decay = spec.weight_decay;
  // 0: resolved before the key existed.
  config.layer_decay = spec.layer_decay == 0 ? 1 : spec.layer_decay;
  config.decay_norms_and_biases = spec.decay_norms_and_biases;
  return config;
}

std::unique_ptr<Optimizer> Make(const trainer_spec::Optimizer& spec,
                                const std::vector<OptimizedParameter>& parameters) {
  using Name = trainer_spec::OptimizerName;
  switch (spec.name) {
    case Name::kSgd:
      return MakeSgd({spec.momentum, spec.nesterov}, parameters);
    case Name::kAdam:
      return MakeAdam({spec.beta1, spec.beta2, spec.eps}, parameters);
    case Name::kLars:
      return MakeLars({spec.momentum, spec.trust_coefficient}, parameters);
    case Name::kLamb:
      return MakeLamb({spec.beta1, spec.beta2, spec.eps}, parameters);
    case Name::kLion:
      return MakeLion({spec.beta1, spec.beta2}, parameters);
    case Name::kAdamw:
    case Name::kUnspecified:
      break;
  }
  return MakeAdamW({spec.beta1, spec.beta2, spec.eps}, parameters);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> BuildOptimizer(const trainer_spec::Optimizer& spec,
                                                          const Model& model) {
  std::vector<ParameterShape> shapes;
  for (const ModelTensor& entry : model.parameters())
    shapes.push_back({entry.name, entry.tensor.sizes().vec()});
  const auto settings = AssignGroups(Grouping(spec), shapes);
  if (!settings.ok()) return Classify(settings.status(), kStartFailed);
  std::vector<OptimizedParameter> trained;
  for (size_t i = 0; i < settings->size(); ++i) {
    const ModelTensor& entry = model.parameters()[i];
    const ParameterSettings& own = (*settings)[i];
    if (own.frozen) {
      entry.tensor.set_requires_grad(false);
    } else {
      trained.push_back({entry.name, entry.tensor, own.lr_scale, own.weight_decay, own.adapt});
    }
  }
  return Make(spec, trained);
}

}  // namespace muster::worker
