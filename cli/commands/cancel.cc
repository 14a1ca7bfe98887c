// `muster cancel`: ends jobs.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/output/views.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

absl::StatusOr<v1::JobSummary> Cancel(const std::string& job, Session& session) {
  v1::CancelJobRequest request;
  MUSTER_ASSIGN_OR_RETURN(*request.mutable_job(), ParseJobRef(job));
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  MUSTER_ASSIGN_OR_RETURN(
      v1::CancelJobResponse response,
      client->Call(&v1::JobService::Stub::CancelJob, request, session.timeout()));
  return response.summary();
}

// Goes on after a job that cannot be cancelled; the first error decides the exit code, each is
// printed.
absl::StatusOr<ExitCode> Run(const std::vector<std::string>& jobs, Session& session) {
  std::vector<v1::JobSummary> done;
  absl::Status first;
  for (const std::string& job : jobs) {
    auto summary = Cancel(job, session);
    if (summary.ok()) {
      done.push_back(*std::move(summary));
    } else if (first.ok()) {
      first = summary.status();
    } else {
      session.host().err << ErrorText(summary.status(), IsJson(session.globals().format));
    }
  }
  if (session.globals().tables()) {
    for (const v1::JobSummary& job : done) {
      session.host().out << "job " << JobName(job) << ": " << v1::JobState_Name(job.state())
                         << "\n";
    }
  } else if (!done.empty()) {
    session.PrintList(Table({}), ToJsonList(done), "id");
  }
  if (!first.ok()) return first;
  return ExitCode::kDone;
}

}  // namespace

void AddCancel(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand("cancel", "end jobs; what they saved is kept");
  const auto jobs = std::make_shared<std::vector<std::string>>();
  command->add_option("JOB", *jobs, "ids or names")->required();
  command->callback(
      [jobs, &session, &verb] { verb = [jobs, &session] { return Run(*jobs, session); }; });
}

}  // namespace muster::cli
