// A recipe that runs in seconds: a small MLP of synthetic samples, on two ranks.
#pragma once

#include <ATen/Parallel.h>

#include "trainer_spec/job_spec.h"

namespace muster::testing {

inline trainer_spec::JobSpec SmallSpec() {
  at::set_num_threads(1);  // as the default of train.threads_per_rank: more wait for each other
  trainer_spec::JobSpec spec;
  spec.ranks = {.min = 2, .max = 2};
  spec.train.data.synthetic = {.samples = 256, .shape = {16}, .classes = 4};
  spec.train.model.mlp = {.hidden = {64}};
  spec.train.batch_size = 32;
  spec.train.steps = 500;
  spec.train.accumulate = 1;
  spec.train.optimizer.name = trainer_spec::OptimizerName::kAdamw;
  spec.train.optimizer.lr = 0.01;
  spec.train.optimizer.beta1 = 0.9;
  spec.train.optimizer.beta2 = 0.999;
  spec.train.optimizer.eps = 1e-8;
  spec.train.schedule.name = trainer_spec::ScheduleName::kConstant;
  return spec;
}

}  // namespace muster::testing
