// What a project has used, and whose turn that makes it. Pure arithmetic.
//
// Use is counted in slot-seconds that lose half their worth each half-life, so that what somebody
// used long ago does not hold them back for ever. A slot held from `from` to `to` is worth, at
// `to`, the integral of 2^-(age / half-life) over its seconds.
//
// Times are ledger time (model/types/ledger_types.h): whoever sets the wall clock changes nobody's
// share.
#pragma once

#include "absl/time/time.h"
#include "controller/model/types/project_types.h"

namespace muster::controller {

inline constexpr absl::Duration kUseHalfLife = absl::Hours(7 * 24);

// What `used` is worth at `now`. A time before it ages nothing.
double DecayedAt(const DecayedUse& used, absl::Time now, absl::Duration half_life);

// What `slots` held from `from` to `to` are worth at `to`.
double HoldWorth(uint32_t slots, absl::Time from, absl::Time to, absl::Duration half_life);

// `used` with the hold added, as of `to`.
DecayedUse Charge(const DecayedUse& used, uint32_t slots, absl::Time from, absl::Time to,
                  absl::Duration half_life);

// Where a project stands in the line of projects: lower goes first. `worth` is what it has used,
// live attempts included. A slot that it holds now counts as kLookAhead more of use, so that
// projects with the same past take turns within one round instead of one taking all.
inline constexpr absl::Duration kLookAhead = absl::Hours(1);
double ShareKey(double worth, uint32_t slots_held, double weight);

}  // namespace muster::controller
