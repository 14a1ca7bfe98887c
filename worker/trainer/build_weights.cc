// What weights a run begins with, and their moving average.
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "worker/models/mae_to_vit.h"
#include "worker/trainer/compose.h"

namespace muster::worker {
namespace {

// Fine-tuning: of a masked autoencoder its encoder; any other file as it is.
absl::StatusOr<NamedTensors> EncoderOfMae(NamedTensors tensors) {
  std::vector<ModelTensor> state;
  for (const NamedTensor& entry : tensors) state.push_back({entry.name, entry.tensor});
  if (!IsMae(state)) return tensors;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<ModelTensor> vit, MaeEncoderToVit(state));
  NamedTensors converted;
  for (const ModelTensor& entry : vit) converted.push_back({entry.name, entry.tensor});
  return converted;
}

}  // namespace

std::unique_ptr<Ema> BuildEma(const trainer_spec::Ema& spec, const Model& model) {
  if (spec.every_steps == 0) return nullptr;  // not in the recipe
  return std::make_unique<Ema>(
      EmaConfig{spec.decay, static_cast<int64_t>(spec.every_steps), spec.warmup}, model);
}

std::unique_ptr<Transfer> BuildTransfer(const trainer_spec::Train& train, FileSystem& fs) {
  const trainer_spec::Weights& spec = train.weights;
  if (spec.path.empty()) return nullptr;  // not in the recipe
  TransferConfig config;
  config.path = spec.path;
  for (const trainer_spec::NameMap& rule : spec.map)
    config.rules.map.push_back({rule.from, rule.to});
  config.rules.ignore = spec.ignore;
  config.rules.strict = spec.strict;
  if (train.model.vit.has_value()) config.layout = EncoderOfMae;
  return std::make_unique<Transfer>(fs, std::move(config));
}

}  // namespace muster::worker
