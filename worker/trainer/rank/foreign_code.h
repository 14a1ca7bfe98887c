// Code that a job file names by a path and that the trainer would run as its own: plug-ins, and
// TorchScript files, whose operators read and write files as well. Both need the same right, that
// of commands. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "trainer_spec/job_spec.h"

namespace muster::worker {

// The field that names such code; empty: none does.
std::string ForeignCodeIn(const trainer_spec::JobSpec& spec);

// PERMISSION_DENIED when the spec names such code and `allowed` is false; the message names the
// field and ends with `way_out`.
absl::Status MayRunForeignCode(const trainer_spec::JobSpec& spec, bool allowed,
                               absl::string_view way_out);

// The way out of who calls muster-trainer by hand.
inline constexpr char kSayAllowCommands[] = "say --allow-commands to run it here";

}  // namespace muster::worker
