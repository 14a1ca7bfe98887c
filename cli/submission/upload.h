// Sends the folder that a job runs in to the controller: `--upload DIR` of `submit` and `run`.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/session/cli_session.h"
#include "cli/session/interrupt.h"
#include "common/upload/pack_folder.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

// Sends the archive, where there is one, unless the controller has it; says so on stderr. Tried
// again while nobody answers, or there is no room, and there is time; RESOURCE_EXHAUSTED after
// that.
absl::Status SendUpload(const std::optional<PackedFolder>& folder, Session& session,
                        InterruptGuard* guard = nullptr);

// As SendJob (submission.h), of a job that runs in the folder: a controller that was started anew
// since SendUpload has forgotten who sent it, and is sent it once more.
absl::StatusOr<v1::SubmitResponse> SendJobIn(const std::optional<PackedFolder>& folder,
                                             v1::SubmitRequest request, Session& session,
                                             InterruptGuard* guard = nullptr);

}  // namespace muster::cli
