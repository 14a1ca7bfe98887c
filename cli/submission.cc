#include "cli/submission.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cli/change.h"
#include "cli/command_job.h"
#include "cli/output/views.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"

namespace muster::cli {

absl::StatusOr<v1::SubmitResponse> SendJob(v1::SubmitRequest request, Session& session) {
  request.set_owner(UserName(session.host()));
  request.set_protocol_version(kProtocolVersion);
  if (request.idempotency_key().empty()) {
    MUSTER_ASSIGN_OR_RETURN(*request.mutable_idempotency_key(), RandomKey());
  }
  MUSTER_ASSIGN_OR_RETURN(v1::SubmitResponse response, SendChange(session, rpc::kSubmit, request));
  response.set_jobs(std::max(1u, response.jobs()));  // an older controller does not say
  return response;
}

absl::StatusOr<std::optional<PackedFolder>> PackUpload(SubmitFlags& flags) {
  if (!flags.upload.has_value()) return std::nullopt;
  MUSTER_ASSIGN_OR_RETURN(PackedFolder packed, PackFolder(*flags.upload));
  // In quotes: digits alone would be read as a number.
  flags.sets.push_back(absl::StrCat("command.upload=", QuoteText(packed.sha256)));
  return packed;
}

std::string SubmittedText(const v1::SubmitResponse& response) {
  const std::string& name = response.resolved_spec().name();
  const std::string jobs =
      response.jobs() > 1
          ? absl::StrCat("array ", response.job_id(), " ", name, " of ", response.jobs(), " jobs")
          : absl::StrCat("job ", response.job_id(), " ", name);
  return absl::StrCat(
      jobs, response.already_existed() ? " was submitted before with this key" : " submitted",
      response.has_resume_from()
          ? absl::StrCat("; begins from ", ResumeSourceText(response.resume_from()))
          : "");
}

}  // namespace muster::cli
