// The learning rate as a pure function (P) of the step: what a resume needs is the step alone.
#pragma once

#include <cstdint>

namespace muster::worker {

enum class ScheduleName { kConstant, kCosine };

struct ScheduleConfig {
  ScheduleName name = ScheduleName::kCosine;
  double peak = 0.001;
  int64_t warmup_steps = 0;
  double final_fraction = 0;  // of the peak, where cosine ends
  int64_t total_steps = 0;
};

// The rate of step `step` (0-based). During warm-up it is peak * (step + 1) / warmup_steps, so that
// no step is wasted at zero; then constant, or half a cosine from the peak to final_fraction * peak
// (Loshchilov and Hutter 2017, no restarts).
double LearningRate(const ScheduleConfig& config, int64_t step);

}  // namespace muster::worker
