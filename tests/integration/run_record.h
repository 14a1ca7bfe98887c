// What a finished run leaves behind, in a form that two runs can be compared by.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cluster.h"

namespace muster::testing {

// All metric points of rank 0, by (name, step). A point that stands there twice is a test failure.
using MetricTable = std::map<std::pair<std::string, int64_t>, double>;

struct RunRecord {
  int64_t final_step = 0;
  std::string model;      // bytes of the newest checkpoint's model.safetensors
  std::string optimizer;  // and optimizer.safetensors
  MetricTable metrics;
};

// Reads it of a job that SUCCEEDED; failures when something is missing.
RunRecord ReadRun(Cluster& cluster, uint64_t job);

// Same final weights and optimizer state bit for bit, the same metric rows, and equal values where
// a value does not depend on the clock or on memory.
void ExpectSameRun(const RunRecord& run, const RunRecord& reference);

// Each attempt after the first began at the newest checkpoint that was committed in the attempts
// before it, and none is further back than that.
void ExpectResumedFromNewestCheckpoint(const Json& show);

// The attempts of `muster show`, oldest first.
std::vector<Json> AttemptsInOrder(const Json& show);

}  // namespace muster::testing
