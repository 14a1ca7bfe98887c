#include <algorithm>

#include "worker/trainer/rank/compose.h"

namespace muster::worker {
namespace {

ScheduleName NameOf(trainer_spec::ScheduleName name) {
  switch (name) {
    case trainer_spec::ScheduleName::kConstant:
      return ScheduleName::kConstant;
    case trainer_spec::ScheduleName::kStep:
      return ScheduleName::kStep;
    case trainer_spec::ScheduleName::kPolynomial:
      return ScheduleName::kPolynomial;
    case trainer_spec::ScheduleName::kOneCycle:
      return ScheduleName::kOneCycle;
    case trainer_spec::ScheduleName::kCosine:
    case trainer_spec::ScheduleName::kUnspecified:
      break;
  }
  return ScheduleName::kCosine;
}

// The linear scaling rule (Goyal et al. 2017) where it was asked for.
double PeakRate(const trainer_spec::Train& train) {
  const trainer_spec::Optimizer& optimizer = train.optimizer;
  if (optimizer.base_lr == 0) return optimizer.lr;
  return optimizer.base_lr * train.batch_size / optimizer.base_batch;
}

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

ScheduleConfig BuildSchedule(const trainer_spec::Train& train, int64_t total_steps) {
  ScheduleConfig schedule;
  schedule.name = NameOf(train.schedule.name);
  schedule.peak = PeakRate(train);
  schedule.warmup_steps = static_cast<int64_t>(train.schedule.warmup_steps);
  schedule.final_fraction = train.schedule.final_fraction;
  schedule.total_steps = total_steps;
  schedule.start_fraction = train.schedule.start_fraction;
  for (const uint64_t step : train.schedule.milestones)
    schedule.milestones.push_back(static_cast<int64_t>(step));
  schedule.gamma = train.schedule.gamma;
  schedule.power = train.schedule.power;
  schedule.rise_fraction = train.schedule.rise_fraction;
  return schedule;
}

Recipe BuildRecipe(const trainer_spec::JobSpec& spec, const Sampler& sampler, uint32_t world_size) {
  const trainer_spec::Train& train = spec.train;
  Recipe recipe;
  recipe.total_steps =
      static_cast<int64_t>(train.epochs > 0 ? sampler.StepsFor(train.epochs) : train.steps);
  recipe.schedule = BuildSchedule(train, recipe.total_steps);
  recipe.precision = PrecisionOf(train.precision);
  if (recipe.precision == Precision::kFp16 && train.loss_scale.initial > 0) {
    recipe.loss_scale.initial = train.loss_scale.initial;
    recipe.loss_scale.growth_interval = train.loss_scale.growth_interval;
    recipe.loss_scale.max_skips = train.loss_scale.max_skips;
  }
  recipe.accumulate = std::max<int64_t>(1, train.accumulate);
  recipe.clip_norm = train.clip_norm;
  recipe.clip_value = train.clip_value;
  recipe.checkpoint_blocks = train.memory.checkpoint_blocks;
  recipe.seed = train.seed;
  recipe.report_every_steps = std::max<int64_t>(1, train.report_every_steps);
  recipe.validate_every_epochs = train.validate_every_epochs;
  recipe.validate_every_steps = static_cast<int64_t>(train.validate_every_steps);
  recipe.validate_before_save = train.validate_before_save;
  recipe.save_every_epochs = spec.checkpoint.every_epochs;
  recipe.save_every_steps = static_cast<int64_t>(spec.checkpoint.every_steps);
  recipe.save_every = spec.checkpoint.every;
  // The largest micro-batch of a training step: what fits there fits here.
  const int64_t share = (int64_t{train.batch_size} + world_size - 1) / world_size;
  recipe.evaluation_batch_size =
      std::max<int64_t>(1, (share + recipe.accumulate - 1) / recipe.accumulate);
  recipe.commit_timeout = spec.restart.controller_lost_timeout;
  recipe.data_timeout = DataTimeoutOf(spec);
  return recipe;
}

}  // namespace muster::worker
