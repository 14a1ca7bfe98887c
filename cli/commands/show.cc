// `muster show`: everything about one job.
#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/output/views.h"
#include "common/base/status_macros.h"
#include "common/spec/spec_writer.h"

namespace muster::cli {
namespace {

// The answer as JSON, its spec spelled as users write it.
Json JobJson(const v1::GetJobResponse& job) {
  Json json = ToJson(job);
  json["spec"] = Json::parse(SpecToJson(job.spec()), nullptr, /*allow_exceptions=*/false);
  return json;
}

absl::StatusOr<ExitCode> Run(const std::string& job, Session& session) {
  v1::GetJobRequest request;
  MUSTER_ASSIGN_OR_RETURN(*request.mutable_job(), ParseJobRef(job));
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  MUSTER_ASSIGN_OR_RETURN(const v1::GetJobResponse response,
                          client->Call(rpc::kGetJob, request, session.timeout()));
  if (session.globals().format == Format::kCsv || session.globals().format == Format::kName) {
    session.PrintOne("", ToJson(response.summary()), "id");
  } else {
    session.PrintOne(JobPage(response, SpecToYaml(response.spec()), WallNow()), JobJson(response),
                     "id");
  }
  return ExitCode::kDone;
}

}  // namespace

void AddShow(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("show", "all about one job: attempts, ranks, checkpoints, events, spec");
  const auto job = std::make_shared<std::string>();
  command->add_option("JOB", *job, "its id or name")->required();
  command->callback(
      [job, &session, &verb] { verb = [job, &session] { return Run(*job, session); }; });
}

}  // namespace muster::cli
