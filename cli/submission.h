// Sends one job to the controller: shared by `submit` and `run`.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/commands/submit_flags.h"
#include "cli/session.h"
#include "common/upload/pack_folder.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

// Completes the request (owner, protocol version, a random idempotency key where it has none) and
// sends it, again and again while nobody answers and there is time.
absl::StatusOr<v1::SubmitResponse> SendJob(v1::SubmitRequest request, Session& session);

// Packs the folder of --upload, where that is given, and has `flags` name it. Sends nothing.
absl::StatusOr<std::optional<PackedFolder>> PackUpload(SubmitFlags& flags);

// "job 7 digits submitted", and what it begins from where that is another job.
std::string SubmittedText(const v1::SubmitResponse& response);

}  // namespace muster::cli
