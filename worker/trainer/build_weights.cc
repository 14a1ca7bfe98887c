// What weights a run begins with, and their moving average.
#include "worker/trainer/compose.h"

namespace muster::worker {

std::unique_ptr<Ema> BuildEma(const trainer_spec::Ema& spec, const Model& model) {
  if (spec.every_steps == 0) return nullptr;  // not in the recipe
  return std::make_unique<Ema>(
      EmaConfig{spec.decay, static_cast<int64_t>(spec.every_steps), spec.warmup}, model);
}

std::unique_ptr<Transfer> BuildTransfer(const trainer_spec::Weights& spec, FileSystem& fs) {
  if (spec.path.empty()) return nullptr;  // not in the recipe
  TransferConfig config;
  config.path = spec.path;
  for (const trainer_spec::NameMap& rule : spec.map)
    config.rules.map.push_back({rule.from, rule.to});
  config.rules.ignore = spec.ignore;
  config.rules.strict = spec.strict;
  return std::make_unique<Transfer>(fs, std::move(config));
}

}  // namespace muster::worker
