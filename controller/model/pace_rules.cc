#include "controller/model/pace_rules.h"

namespace muster::controller {

void NotePace(uint32_t attempt, JobPace& pace, int64_t step, int64_t total_steps, absl::Time now) {
  const JobPace::Mark here{.step = step, .at = now};
  const bool fresh = pace.attempt != attempt || step < pace.middle.step || now < pace.middle.at;
  if (fresh) pace = {.attempt = attempt, .from = here, .middle = here};
  if (now - pace.middle.at >= kPaceSpan) {
    pace.from = pace.middle;
    pace.middle = here;
  }
  const int64_t steps = step - pace.from.step;
  const absl::Duration time = now - pace.from.at;
  const bool known = total_steps > 0 && steps >= kMinPaceSteps && time >= kMinPaceTime;
  if (!known) {
    pace.end = absl::InfiniteFuture();
    return;
  }
  const int64_t left = step < total_steps ? total_steps - step : 0;
  pace.end = now + time * (static_cast<double>(left) / static_cast<double>(steps));
}

absl::Time ForetoldEnd(const Job& job) {
  const JobPace& pace = job.progress.pace;
  return pace.attempt == job.attempt ? pace.end : absl::InfiniteFuture();
}

}  // namespace muster::controller
