#include "cli/submission.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/all_workers.h"
#include "cli/change.h"
#include "cli/command_job.h"
#include "cli/output/views.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"

namespace muster::cli {
namespace {

// Best effort: the job is in, and a name that nobody knows may be that of a worker to come.
void WarnOfUnknownWorkers(const v1::JobSpec& spec, Session& session) {
  const auto& excluded = spec.placement().exclude();
  if (excluded.empty()) return;
  const absl::StatusOr<std::vector<v1::WorkerInfo>> workers = AllWorkers(session);
  if (!workers.ok()) return;
  std::set<std::string> unknown(excluded.begin(), excluded.end());
  for (const v1::WorkerInfo& worker : *workers) unknown.erase(worker.name());
  for (const std::string& name : unknown) {
    session.Say(
        absl::StrCat("warning: no worker is called `", name,
                     "`, which the job is not to run on; `muster nodes` shows their names"));
  }
}

}  // namespace

absl::StatusOr<v1::SubmitResponse> SendJob(v1::SubmitRequest request, Session& session) {
  request.set_owner(UserName(session.host()));
  request.set_protocol_version(kProtocolVersion);
  if (request.idempotency_key().empty()) {
    MUSTER_ASSIGN_OR_RETURN(*request.mutable_idempotency_key(), RandomKey());
  }
  MUSTER_ASSIGN_OR_RETURN(v1::SubmitResponse response, SendChange(session, rpc::kSubmit, request));
  response.set_jobs(std::max(1u, response.jobs()));  // an older controller does not say
  WarnOfUnknownWorkers(request.spec(), session);
  return response;
}

absl::Status ResolveAfter(std::vector<std::string>& after, Session& session) {
  for (std::string& text : after) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
    MUSTER_ASSIGN_OR_RETURN(const v1::JobRef job, ParseJobRef(parts.first));
    if (!job.has_name()) continue;
    MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
    v1::GetJobRequest request;
    *request.mutable_job() = job;
    MUSTER_ASSIGN_OR_RETURN(const v1::GetJobResponse found,
                            client->Call(rpc::kGetJob, request, session.timeout()));
    const v1::JobSummary& summary = found.summary();
    const uint64_t id = summary.array_id() != 0 ? summary.array_id() : summary.id();
    text = absl::StrCat(id, text.substr(parts.first.size()));
  }
  return absl::OkStatus();
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
