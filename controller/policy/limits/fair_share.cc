#include "controller/policy/limits/fair_share.h"

#include <algorithm>
#include <cmath>

namespace muster::controller {

double DecayedAt(const DecayedUse& used, absl::Time now, absl::Duration half_life) {
  if (used.slot_seconds == 0 || used.at == absl::InfinitePast()) return 0;
  const absl::Duration age = std::max(now - used.at, absl::ZeroDuration());
  return used.slot_seconds * std::exp2(-absl::FDivDuration(age, half_life));
}

double HoldWorth(uint32_t slots, absl::Time from, absl::Time to, absl::Duration half_life) {
  if (to <= from) return 0;
  const double half_lives = absl::FDivDuration(to - from, half_life);
  const double seconds =
      absl::ToDoubleSeconds(half_life) / std::log(2.0) * -std::expm1(-half_lives * std::log(2.0));
  return slots * seconds;
}

DecayedUse Charge(const DecayedUse& used, uint32_t slots, absl::Time from, absl::Time to,
                  absl::Duration half_life) {
  const absl::Time at = std::max(used.at, to);
  const DecayedUse hold{.slot_seconds = HoldWorth(slots, from, to, half_life), .at = to};
  return {.slot_seconds = DecayedAt(used, at, half_life) + DecayedAt(hold, at, half_life),
          .at = at};
}

double ShareKey(double worth, uint32_t slots_held, double weight) {
  return (worth + slots_held * absl::ToDoubleSeconds(kLookAhead)) / weight;
}

}  // namespace muster::controller
