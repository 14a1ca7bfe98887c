// The bounds of the built-in trainer's recipe. Used by ValidateSpec alone. Pure.
#pragma once

#include <vector>

#include "common/spec/tree/spec_fault.h"
#include "muster/v1/job_spec.pb.h"

namespace muster {

// Adds what is wrong with `train:` to `faults`.
void ValidateTrain(const v1::Train& train, std::vector<SpecFault>& faults);

// Its parts; each may look at the others where they must fit together.
void ValidateModel(const v1::Train& train, std::vector<SpecFault>& faults);
void ValidateData(const v1::Train& train, std::vector<SpecFault>& faults);
void ValidateWeights(const v1::Train& train, std::vector<SpecFault>& faults);  // and their average
void ValidateOptimizer(const v1::Train& train, std::vector<SpecFault>& faults);  // and schedule

}  // namespace muster
