// Every bound of a spec, and nowhere else. Pure.
#pragma once

#include <vector>

#include "common/spec/tree/spec_fault.h"
#include "muster/v1/job_spec.pb.h"

namespace muster {

// Looks at a spec whose defaults are filled in. All faults at once, each with its path, what is
// allowed and what was given; their lines are 0.
std::vector<SpecFault> ValidateSpec(const v1::JobSpec& spec);

}  // namespace muster
