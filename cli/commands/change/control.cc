// `muster hold`, `release`, `suspend`, `resume` and `requeue`: when jobs run.
#include <memory>

#include "cli/calls/change.h"
#include "cli/commands/commands.h"
#include "cli/commands/job_verb.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

using Request = v1::ControlJobRequest;

struct Control {
  const char* name;
  const char* help;
  Request::Verb verb;
};

constexpr Control kControls[] = {
    {"hold", "keep jobs that wait from starting", Request::HOLD},
    {"release", "let jobs that were held start", Request::RELEASE},
    {"suspend", "have jobs save and give their slots back, until they are resumed",
     Request::SUSPEND},
    {"resume", "queue suspended jobs again; they go on from their newest checkpoint",
     Request::RESUME},
    {"requeue",
     "queue jobs again: one that runs saves first, one that failed starts afresh with "
     "what it saved",
     Request::REQUEUE},
};

absl::StatusOr<ExitCode> RunControl(Request::Verb verb, const JobVerbFlags& flags,
                                    Session& session) {
  return ForEachJob(flags, session, [&](const JobTarget& target) -> absl::StatusOr<JobAnswer> {
    Request request;
    *request.mutable_job() = target.job;
    request.set_verb(verb);
    request.set_whole_array(target.whole_array);
    request.set_user(UserName(session.host()));
    MUSTER_ASSIGN_OR_RETURN(*request.mutable_request_id(), RandomKey());
    MUSTER_ASSIGN_OR_RETURN(v1::ControlJobResponse response,
                            SendChange(session, &Jobs::ControlJob, request));
    return JobAnswer{.summary = response.summary(), .jobs = response.jobs()};
  });
}

}  // namespace

void AddControl(CLI::App& app, Session& session, Verb& verb) {
  for (const Control& control : kControls) {
    CLI::App* command = app.add_subcommand(control.name, control.help);
    const auto flags = std::make_shared<JobVerbFlags>();
    AddJobVerbFlags(*command, *flags);
    command->callback([flags, wanted = control.verb, &session, &verb] {
      verb = [flags, wanted, &session] { return RunControl(wanted, *flags, session); };
    });
  }
}

}  // namespace muster::cli
