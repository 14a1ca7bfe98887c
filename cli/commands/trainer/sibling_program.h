// Runs the programs beside this one that the verbs need: muster-trainer, which knows torch, and
// muster-data, which knows formats of data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/session/host.h"

namespace muster::cli {

// What muster-trainer beside this program (or in MUSTER_BIN_DIR) prints when it is given these
// arguments, and `input` on its standard input; waits for its end. NOT_FOUND when it is not
// installed there, INVALID_ARGUMENT with its own words when it refuses, INTERNAL when it is killed.
absl::StatusOr<std::string> RunTrainer(const std::vector<std::string>& arguments,
                                       const std::string& input, const Host& host);

// Runs muster-data on this process's own terminal, with `input` (none: this process's) as its
// standard input, and returns its exit code; 128 and the signal when one ended it. Meanwhile Ctrl-C
// is for it alone. NOT_FOUND as above.
absl::StatusOr<int> RunDataTool(const std::vector<std::string>& arguments,
                                const std::optional<std::string>& input, const Host& host);

}  // namespace muster::cli
