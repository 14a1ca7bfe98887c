// The way in for a spec: from a person's file (the CLI) or from a request (the controller). Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/v1/job_spec.pb.h"

namespace muster {

struct SpecSource {
  // How messages name it, e.g. the file's name.
  std::string name = "spec";
  // Values of --set (see ReadSpec).
  std::vector<std::string> overrides;
  // Where relative paths of the text (train.data.digits.path, train.weights.path, checkpoint.url,
  // command.workdir) start: the file's folder. Empty: they are refused.
  std::string base_dir;
  // Where those given by --set start, and what command.workdir is by default: the folder in which
  // the command line runs. Empty: base_dir, and no default.
  std::string overrides_dir;
};

// Reads, overrides, fills defaults and validates. INVALID_ARGUMENT lists all faults of all steps
// with path and line. The result is resolved: every default is written out.
absl::StatusOr<v1::JobSpec> LoadSpec(absl::string_view text, const SpecSource& source = {});

// The same, but the result has only what was written, with its paths made absolute: the controller
// fills in its own defaults, and keeps the spec as it came.
absl::StatusOr<v1::JobSpec> LoadWrittenSpec(absl::string_view text, const SpecSource& source = {});

// The same for a spec that came as a message and may have been written by anyone: fills defaults
// and validates. The message of INVALID_ARGUMENT is short enough for a gRPC trailer. Idempotent.
absl::StatusOr<v1::JobSpec> ResolveSpec(v1::JobSpec spec);

}  // namespace muster
