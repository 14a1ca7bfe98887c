// The bounds of a program as a job. Used by ValidateSpec alone. Pure.
#pragma once

#include <vector>

#include "common/spec/tree/spec_fault.h"
#include "muster/v1/job_spec.pb.h"

namespace muster {

// Adds what is wrong with `command:` to `faults`.
void ValidateCommand(const v1::Command& command, std::vector<SpecFault>& faults);

}  // namespace muster
