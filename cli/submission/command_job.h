// A job that is any program, from what stands behind `--` on the command line. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::cli {

// The job file that runs `program` (the program first, then its arguments), named after it.
// Requires a program. INVALID_ARGUMENT: an argument is not UTF-8, which a job file cannot hold.
absl::StatusOr<std::string> CommandJobText(const std::vector<std::string>& program);

// `text` in quotes that YAML and JSON read alike.
std::string QuoteText(absl::string_view text);

// A name that a job may have: the last part of the path in lower case, other characters as '-'.
std::string JobNameOf(absl::string_view program);

}  // namespace muster::cli
