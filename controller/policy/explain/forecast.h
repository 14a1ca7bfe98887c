// A forecast in one line, for a dry run. Pure. Used by explain.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "controller/model/types/explanation_types.h"
#include "controller/model/types/job_types.h"

namespace muster::controller {

// "would start now: 2 ranks on w1, w2; for 1h as declared, 2.00 slot-hours"; "would wait: needs 4
// CPU slots ...; could start at ..., in 22m: ...". `now` is the wall clock.
std::string ForecastLine(const Explanation& explanation, absl::Time now);

}  // namespace muster::controller
