#include "worker/optim/schedule.h"

#include <algorithm>
#include <cmath>

namespace muster::worker {
namespace {

// From `from` to `to` along half a cosine; part from 0 to 1.
double HalfCosine(double from, double to, double part) {
  return to + (from - to) * 0.5 * (1.0 + std::cos(std::acos(-1.0) * part));
}

// The last step takes the final rate itself: what comes after the cycle is nobody's.
double OneCycle(const ScheduleConfig& config, int64_t step) {
  const double total = static_cast<double>(config.total_steps);
  const double at = static_cast<double>(step);
  const double top = config.rise_fraction * total - 1.0;
  const double last = total - 1.0;
  if (at <= top) return HalfCosine(config.start_fraction, 1, top > 0 ? at / top : 1);
  return HalfCosine(1, config.final_fraction, std::min(1.0, (at - top) / (last - top)));
}

// As a fraction of the peak.
double Fraction(const ScheduleConfig& config, int64_t step) {
  if (config.name == ScheduleName::kOneCycle) return OneCycle(config, step);
  if (step < config.warmup_steps) {
    const double part = static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
    return config.start_fraction + (1.0 - config.start_fraction) * part;
  }
  const double length =
      static_cast<double>(std::max<int64_t>(1, config.total_steps - config.warmup_steps));
  const double progress =
      std::clamp(static_cast<double>(step - config.warmup_steps) / length, 0.0, 1.0);
  switch (config.name) {
    case ScheduleName::kStep: {
      const auto reached =
          std::upper_bound(config.milestones.begin(), config.milestones.end(), step);
      return std::pow(config.gamma, static_cast<double>(reached - config.milestones.begin()));
    }
    case ScheduleName::kPolynomial:
      return config.final_fraction +
             (1.0 - config.final_fraction) * std::pow(1.0 - progress, config.power);
    case ScheduleName::kCosine:
      return HalfCosine(1, config.final_fraction, progress);
    case ScheduleName::kConstant:
    case ScheduleName::kOneCycle:
      break;
  }
  return 1;
}

}  // namespace

double LearningRate(const ScheduleConfig& config, int64_t step) {
  return config.peak * Fraction(config, step);
}

}  // namespace muster::worker
