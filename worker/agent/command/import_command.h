// `muster-worker import-checkpoint`: the program of the job that `muster ckpt import` submits. It
// rereads a checkpoint folder against its manifest, and offers it to the agent that runs it, which
// copies and publishes its files as a checkpoint of this job. A file, or a flat folder of files,
// without a manifest needs --step and is offered as it is. The job begins in the folder in which
// PATH lies: from there its agent takes offers.
#pragma once

#include "absl/status/status.h"
#include "common/fs/file_system.h"

namespace muster::worker {

// Whether the command line is `muster-worker import-checkpoint ...`.
bool IsImportCommand(int argc, const char* const* argv);

// Progress goes to stdout. INVALID_ARGUMENT: a flag does not fit, or no agent runs this. NOT_FOUND,
// DATA_LOSS: of the folder, as ReadAndVerifyCheckpoint. Else the agent's refusal, or FileSystem's.
absl::Status RunImportCommand(int argc, char** argv, FileSystem& fs);

}  // namespace muster::worker
