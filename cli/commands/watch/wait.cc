// `muster wait`: until a job has ended; the exit code says how.
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/calls/follow.h"
#include "cli/commands/commands.h"
#include "cli/output/views/views.h"
#include "cli/output/views/watch_view.h"
#include "common/base/status_macros.h"

namespace muster::cli {

absl::StatusOr<v1::JobSummary> FollowToEnd(Session& session, const v1::JobRef& job,
                                           absl::Duration began) {
  InterruptGuard guard;
  std::optional<v1::JobState> state;
  const auto tell = [&](const v1::JobSummary& summary) {
    if (state == summary.state() || IsTerminal(summary.state())) return;
    state = summary.state();
    const std::string why = summary.message().empty() ? "" : absl::StrCat(": ", summary.message());
    session.Say(absl::StrCat("job ", JobName(summary), ": ", v1::JobState_Name(*state), why));
  };
  return FollowJob(session, guard, job, tell, began);
}

absl::StatusOr<ExitCode> WaitForJob(Session& session, const v1::JobRef& job) {
  MUSTER_ASSIGN_OR_RETURN(const v1::JobSummary summary, FollowToEnd(session, job));
  session.PrintOne(absl::StrCat(OutcomeText(summary), "\n"), ToJson(summary), "id");
  return ExitCodeOf(summary);
}

void AddWait(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand(
      "wait",
      "wait until a job has ended; 0: succeeded, 10: failed, 11: cancelled, 8: --timeout is over");
  const auto job = std::make_shared<std::string>();
  command->add_option("JOB", *job, "its id or name")->required();
  command->callback([job, &session, &verb] {
    verb = [job, &session]() -> absl::StatusOr<ExitCode> {
      MUSTER_ASSIGN_OR_RETURN(const v1::JobRef ref, ParseJobRef(*job));
      return WaitForJob(session, ref);
    };
  });
}

}  // namespace muster::cli
