// Sends one job to the controller: shared by `submit` and `run`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/session/cli_session.h"
#include "cli/session/interrupt.h"
#include "cli/submission/submit_flags.h"
#include "common/upload/pack_folder.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

// Completes the request (owner, protocol version, a random idempotency key where it has none) and
// sends it, again and again while nobody answers and there is time. Says which of the workers that
// the job is not to run on nobody knows. An interrupt ends it with CANCELLED where there is a
// guard, unless the answer was there first. UNAVAILABLE, DEADLINE_EXCEEDED and CANCELLED: the job
// may be in all the same, and the hint tells how to repeat the submit. ALREADY_EXISTS: the key is
// of a job with another spec.
absl::StatusOr<v1::SubmitResponse> SendJob(v1::SubmitRequest request, Session& session,
                                           InterruptGuard* guard = nullptr);

// Puts ids in the place of the names of jobs in --after: the newest job of that name, or its whole
// array. NOT_FOUND: there is none.
absl::Status ResolveAfter(std::vector<std::string>& after, Session& session);

// Packs the folder of --upload, where that is given, and has `flags` name it. Sends nothing.
absl::StatusOr<std::optional<PackedFolder>> PackUpload(SubmitFlags& flags);

// "job 7 digits submitted", and what it begins from where that is another job.
std::string SubmittedText(const v1::SubmitResponse& response);

}  // namespace muster::cli
