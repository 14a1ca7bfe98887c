// `muster cancel`: ends jobs.
#include <memory>

#include "cli/calls/change.h"
#include "cli/commands/commands.h"
#include "cli/commands/job_verb.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

absl::StatusOr<ExitCode> RunCancel(const JobVerbFlags& flags, Session& session) {
  return ForEachJob(flags, session, [&](const JobTarget& target) -> absl::StatusOr<JobAnswer> {
    v1::CancelJobRequest request;
    *request.mutable_job() = target.job;
    request.set_whole_array(target.whole_array);
    request.set_user(UserName(session.host()));
    MUSTER_ASSIGN_OR_RETURN(v1::CancelJobResponse response,
                            SendChange(session, &Jobs::CancelJob, request));
    return JobAnswer{.summary = response.summary(), .jobs = response.jobs()};
  });
}

}  // namespace

void AddCancel(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand("cancel", "end jobs; what they saved is kept");
  const auto flags = std::make_shared<JobVerbFlags>();
  AddJobVerbFlags(*command, *flags);
  command->callback([flags, &session, &verb] {
    verb = [flags, &session] { return RunCancel(*flags, session); };
  });
}

}  // namespace muster::cli
