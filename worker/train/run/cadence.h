// When something is due: every so many steps, every so many epochs, at the end. Pure.
#pragma once

#include <cmath>
#include <cstdint>

namespace muster::worker {

// `done` steps are done. Requires done >= 1; every 0: never.
inline bool DueBySteps(int64_t done, int64_t every) { return every > 0 && done % every == 0; }

// The last step brought the run from `before` to `after` epochs: did it pass a multiple of `every`?
// A batch may reach over the end of an epoch. A hair below counts as reached: epochs are quotients
// of whole numbers.
inline bool DueByEpochs(double before, double after, int64_t every) {
  constexpr double kHair = 1e-9;
  if (every <= 0) return false;
  const double unit = static_cast<double>(every);
  return std::floor(after / unit + kHair) > std::floor(before / unit + kHair);
}

}  // namespace muster::worker
