// What the verbs share that muster-trainer answers, without a controller.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/session/cli_session.h"
#include "cli/session/error.h"

namespace muster::cli {

// Prints what the trainer says to these arguments: for people as it lays it out, for machines from
// its JSON.
absl::StatusOr<ExitCode> AskTrainer(std::vector<std::string> arguments, const std::string& input,
                                    Session& session);

// The job file (`-`: standard input) with `sets` over it, checked, with every default, as JSON.
absl::StatusOr<std::string> ResolvedSpec(const std::string& file,
                                         const std::vector<std::string>& sets, Session& session);

}  // namespace muster::cli
