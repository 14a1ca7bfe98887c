#include "worker/optim/schedule.h"

#include <algorithm>
#include <cmath>

namespace muster::worker {

double LearningRate(const ScheduleConfig& config, int64_t step) {
  if (step < config.warmup_steps) {
    return config.peak * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
  }
  if (config.name == ScheduleName::kConstant) return config.peak;
  const double length =
      static_cast<double>(std::max<int64_t>(1, config.total_steps - config.warmup_steps));
  const double progress =
      std::clamp(static_cast<double>(step - config.warmup_steps) / length, 0.0, 1.0);
  const double cosine = 0.5 * (1.0 + std::cos(std::acos(-1.0) * progress));
  return config.peak * (config.final_fraction + (1.0 - config.final_fraction) * cosine);
}

}  // namespace muster::worker
