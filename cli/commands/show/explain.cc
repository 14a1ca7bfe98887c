// `muster explain`: why a job waits, who comes first, and when it could start.
#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/output/views/explain_view.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

absl::StatusOr<ExitCode> RunExplain(const std::string& job, Session& session) {
  v1::ExplainJobRequest request;
  MUSTER_ASSIGN_OR_RETURN(*request.mutable_job(), ParseJobRef(job));
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  MUSTER_ASSIGN_OR_RETURN(const v1::ExplainJobResponse response,
                          client->Call(&Jobs::ExplainJob, request, session.timeout()));
  const Format format = session.globals().format;
  if (format == Format::kCsv) {
    session.PrintList(Table({}), ToJsonList(response.outlook().blockers()), "kind");
  } else if (format == Format::kName) {
    session.PrintOne("", ToJson(response.summary()), "id");
  } else {
    session.PrintOne(ExplainPage(response, WallNow()), ToJson(response), "id");
  }
  return ExitCode::kDone;
}

}  // namespace

void AddExplain(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand(
      "explain", "why a job waits: every blocker, who comes first, when and where it could start");
  const auto job = std::make_shared<std::string>();
  command->add_option("JOB", *job, "its id or name")->required();
  command->callback(
      [job, &session, &verb] { verb = [job, &session] { return RunExplain(*job, session); }; });
}

}  // namespace muster::cli
