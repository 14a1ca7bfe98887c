// Sends the folder that a job runs in to the controller: `--upload DIR` of `submit` and `run`.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "cli/session/cli_session.h"
#include "common/upload/pack_folder.h"

namespace muster::cli {

// Sends the archive unless the controller has it; says so on stderr. Tried again while nobody
// answers and there is time. RESOURCE_EXHAUSTED: the controller's room for uploads is used up.
absl::Status SendUpload(const PackedFolder& folder, Session& session);

}  // namespace muster::cli
