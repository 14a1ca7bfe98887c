// `muster show`: everything about one job.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands/commands.h"
#include "cli/commands/show/artifact_list.h"
#include "cli/output/views/views.h"
#include "common/base/status_macros.h"
#include "common/spec/spec_writer.h"

namespace muster::cli {
namespace {

struct ShowFlags {
  std::string job;
  bool resolved = false;
};

Json SpecJson(const v1::JobSpec& spec) {
  return Json::parse(SpecToJson(spec), nullptr, /*allow_exceptions=*/false);
}

// The answer as JSON, its specs spelled as users write them: `spec` is always the resolved one.
Json JobJson(const v1::GetJobResponse& job, const ArtifactList& artifacts) {
  Json json = ToJson(job);
  json["spec"] = SpecJson(job.spec());
  if (job.has_written_spec()) json["written_spec"] = SpecJson(job.written_spec());
  if (artifacts.seen) json["artifacts"] = artifacts.names;
  return json;
}

// Where they lie, and which there are.
std::string ArtifactsText(const std::string& folder, const ArtifactList& artifacts) {
  if (folder.empty()) return "";
  if (!artifacts.seen) {
    return absl::StrCat(folder, " (not there yet, or not seen from this machine)");
  }
  if (artifacts.names.empty()) return absl::StrCat(folder, " (empty)");
  const std::string more =
      artifacts.left_out == 0 ? "" : absl::StrCat(" and ", artifacts.left_out, " more");
  return absl::StrCat(absl::StrJoin(artifacts.names, ", "), more, " in ", folder);
}

// As it was written, unless all of it is wanted, or an older Muster did not keep that.
JobPageParts PartsOf(const v1::GetJobResponse& job, bool resolved, const ArtifactList& artifacts) {
  JobPageParts parts;
  parts.artifacts = ArtifactsText(job.artifact_folder(), artifacts);
  const bool written = !resolved && job.has_written_spec();
  parts.spec_title = written    ? "spec, as it was written (--resolved has every default)"
                     : resolved ? "spec, resolved"
                                : "spec";
  parts.spec_yaml = SpecToYaml(written ? job.written_spec() : job.spec());
  return parts;
}

absl::StatusOr<ExitCode> RunShow(const ShowFlags& flags, Session& session) {
  v1::GetJobRequest request;
  MUSTER_ASSIGN_OR_RETURN(*request.mutable_job(), ParseJobRef(flags.job));
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  MUSTER_ASSIGN_OR_RETURN(const v1::GetJobResponse response,
                          client->Call(&Jobs::GetJob, request, session.timeout()));
  if (session.globals().format == Format::kCsv || session.globals().format == Format::kName) {
    session.PrintOne("", ToJson(response.summary()), "id");
  } else {
    const ArtifactList artifacts = response.artifact_folder().empty()
                                       ? ArtifactList()
                                       : ListArtifacts(response.artifact_folder());
    session.PrintOne(JobPage(response, PartsOf(response, flags.resolved, artifacts), WallNow()),
                     JobJson(response, artifacts), "id");
  }
  return ExitCode::kDone;
}

}  // namespace

void AddShow(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("show", "all about one job: attempts, ranks, checkpoints, events, spec");
  const auto flags = std::make_shared<ShowFlags>();
  command->add_option("JOB", flags->job, "its id or name")->required();
  command->add_flag("--resolved", flags->resolved,
                    "the spec with every default and update, not as it was written");
  command->callback(
      [flags, &session, &verb] { verb = [flags, &session] { return RunShow(*flags, session); }; });
}

}  // namespace muster::cli
