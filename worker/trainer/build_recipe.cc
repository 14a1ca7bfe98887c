#include <algorithm>

#include "worker/trainer/compose.h"

namespace muster::worker {
namespace {

Precision PrecisionOf(trainer_spec::Precision precision) {
  switch (precision) {
    case trainer_spec::Precision::kBf16:
      return Precision::kBf16;
    case trainer_spec::Precision::kTf32:
      return Precision::kTf32;
    case trainer_spec::Precision::kFp16:
      return Precision::kFp16;
    default:
      return Precision::kFp32;
  }
}

}  // namespace

Recipe BuildRecipe(const trainer_spec::JobSpec& spec, const Sampler& sampler, uint32_t world_size) {
  const trainer_spec::Train& train = spec.train;
  Recipe recipe;
  recipe.total_steps =
      static_cast<int64_t>(train.epochs > 0 ? sampler.StepsFor(train.epochs) : train.steps);
  recipe.schedule.name = train.schedule.name == trainer_spec::ScheduleName::kConstant
                             ? ScheduleName::kConstant
                             : ScheduleName::kCosine;
  recipe.schedule.peak = train.optimizer.lr;
  recipe.schedule.warmup_steps = static_cast<int64_t>(train.schedule.warmup_steps);
  recipe.schedule.final_fraction = train.schedule.final_fraction;
  recipe.schedule.total_steps = recipe.total_steps;
  recipe.precision = PrecisionOf(train.precision);
  if (recipe.precision == Precision::kFp16) {
    recipe.loss_scale.initial = train.loss_scale.initial;
    recipe.loss_scale.growth_interval = train.loss_scale.growth_interval;
    recipe.loss_scale.max_skips = train.loss_scale.max_skips;
  }
  recipe.accumulate = std::max<int64_t>(1, train.accumulate);
  recipe.clip_norm = train.clip_norm;
  recipe.clip_value = train.clip_value;
  recipe.seed = train.seed;
  recipe.report_every_steps = std::max<int64_t>(1, train.report_every_steps);
  recipe.validate_every_epochs = train.validate_every_epochs;
  recipe.validate_every_steps = static_cast<int64_t>(train.validate_every_steps);
  recipe.validate_before_save = train.validate_before_save;
  recipe.save_every_epochs = spec.checkpoint.every_epochs;
  recipe.save_every_steps = static_cast<int64_t>(spec.checkpoint.every_steps);
  recipe.save_every = spec.checkpoint.every;
  recipe.evaluation_batch_size = std::max<int64_t>(1, train.batch_size / world_size);
  recipe.commit_timeout = spec.restart.controller_lost_timeout;
  return recipe;
}

}  // namespace muster::worker
