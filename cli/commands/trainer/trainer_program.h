// Runs muster-trainer, which knows torch, for the verbs that want to know something of it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/session/host.h"

namespace muster::cli {

// What the program beside this one (or in MUSTER_BIN_DIR) prints when it is given these arguments,
// and `input` on its standard input; waits for its end. NOT_FOUND when it is not installed there,
// INVALID_ARGUMENT with its own words when it refuses, INTERNAL when it is killed.
absl::StatusOr<std::string> RunTrainer(const std::vector<std::string>& arguments,
                                       const std::string& input, const Host& host);

}  // namespace muster::cli
