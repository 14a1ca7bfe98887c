#include "cli/submission/submission.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/calls/all_workers.h"
#include "cli/calls/change.h"
#include "cli/output/views/views.h"
#include "cli/submission/command_job.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"

namespace muster::cli {
namespace {

// Best effort: the job is in, and a name that nobody knows may be that of a worker to come.
void WarnOfUnknownWorkers(const v1::JobSpec& spec, Session& session, InterruptGuard* guard) {
  const auto& excluded = spec.placement().exclude();
  if (excluded.empty()) return;
  const absl::StatusOr<std::vector<v1::WorkerInfo>> workers = AllWorkers(session, guard);
  if (!workers.ok()) return;
  std::set<std::string> unknown(excluded.begin(), excluded.end());
  for (const v1::WorkerInfo& worker : *workers) unknown.erase(worker.name());
  for (const std::string& name : unknown) {
    session.Say(
        absl::StrCat("warning: no worker is called `", name,
                     "`, which the job is not to run on; `muster nodes` shows their names"));
  }
}

// The flags by which a repeat is the same submit: times that count from now on, and jobs that are
// named, would be others by then.
std::string RepeatFlags(const v1::SubmitRequest& request) {
  const v1::Scheduling& scheduling = request.spec().scheduling();
  std::string flags = absl::StrCat("--idempotency-key ", request.idempotency_key());
  if (scheduling.has_begin()) absl::StrAppend(&flags, " --begin ", scheduling.begin());
  if (scheduling.has_deadline()) absl::StrAppend(&flags, " --deadline ", scheduling.deadline());
  if (!scheduling.after().empty()) {
    absl::StrAppend(&flags, " --after ", absl::StrJoin(scheduling.after(), ","));
  }
  return flags;
}

// The error of a submit, with what to do about it.
absl::Status SubmitError(const absl::Status& error, const v1::SubmitRequest& request,
                         bool interrupted) {
  if (absl::IsAlreadyExists(error)) {
    return WithHint(error,
                    "that job is in, and nothing new was submitted; times such as now+2h, and "
                    "names in --after, are others at each repeat");
  }
  const bool unanswered =
      absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error) || absl::IsCancelled(error);
  if (!unanswered || request.dry_run()) return error;
  const std::string repeat =
      absl::StrCat("repeated with `", RepeatFlags(request), "` it is the same job");
  absl::Status status;
  if (interrupted) {
    status = WithHint(Interrupted(absl::StrCat("interrupted: job ", request.spec().name(),
                                               " may have been submitted, and may run")),
                      absl::StrCat("`muster ls` shows whether it does; ", repeat));
  } else {
    const std::string hint = HintOf(error);
    status = WithHint(error, absl::StrCat("it may have been submitted all the same: ", repeat,
                                          hint.empty() ? "" : "\n", hint));
  }
  return WithKey(std::move(status), request.idempotency_key());
}

}  // namespace

absl::StatusOr<v1::SubmitResponse> SendJob(v1::SubmitRequest request, Session& session,
                                           InterruptGuard* guard) {
  request.set_owner(UserName(session.host()));
  request.set_protocol_version(kProtocolVersion);
  if (request.idempotency_key().empty()) {
    MUSTER_ASSIGN_OR_RETURN(*request.mutable_idempotency_key(), RandomKey());
  }
  absl::StatusOr<v1::SubmitResponse> response = SendChange(session, &Jobs::Submit, request, guard);
  if (!response.ok()) {
    const bool interrupted = guard != nullptr && guard->interrupted();
    return SubmitError(response.status(), request, interrupted);
  }
  response->set_jobs(std::max(1u, response->jobs()));  // an older controller does not say
  WarnOfUnknownWorkers(request.spec(), session, guard);
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
                            client->Call(&Jobs::GetJob, request, session.timeout()));
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
