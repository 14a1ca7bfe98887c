// What sample_recorder.cc wrote of a job's ranks, put in the order in which the job learned it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/cluster.h"

namespace muster::testing {

// One training step of a whole gang.
struct RecordedStep {
  std::vector<int64_t> ids;  // in the order of the global batch: rank 0's, then rank 1's, ...
  uint64_t weights = 0;      // hash of what it began with, the same on all ranks
};

// The steps 1, 2, ... of a job that SUCCEEDED, each from the attempt whose work counts: the last
// one that began before it. Failures when a rank lacks a step, or when its weights are not those of
// the gang's other ranks, or not those that the attempt before ended with.
std::vector<RecordedStep> ReadSteps(const std::string& record_path, const Json& show);

}  // namespace muster::testing
