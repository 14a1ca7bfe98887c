// `muster goodput`: what the slots that jobs held were good for.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/output/views/ledger_view.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

struct GoodputFlags {
  std::string job;
  std::string project;
  std::string since;
};

absl::StatusOr<v1::GetGoodputRequest> GoodputRequest(const GoodputFlags& flags) {
  v1::GetGoodputRequest request;
  if (!flags.job.empty()) {
    MUSTER_ASSIGN_OR_RETURN(*request.mutable_job(), ParseJobRef(flags.job));
  }
  request.set_project(flags.project);
  if (!flags.since.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const absl::Duration since, ParseDuration(flags.since));
    request.set_since_ms(absl::ToUnixMillis(WallNow() - since));
  }
  return request;
}

absl::StatusOr<ExitCode> RunGoodput(const GoodputFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const v1::GetGoodputRequest request, GoodputRequest(flags));
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  MUSTER_ASSIGN_OR_RETURN(const v1::GetGoodputResponse response,
                          client->Call(&Jobs::GetGoodput, request, session.timeout()));
  const Format format = session.globals().format;
  const Table jobs = LedgerTable(response);
  if (format == Format::kCsv || format == Format::kName || format == Format::kJsonl) {
    session.PrintList(jobs, ToJsonList(response.jobs()), "id");
    return ExitCode::kDone;
  }
  std::string page = LedgerPage(response.total());
  if (!request.has_job() && !jobs.empty()) {
    absl::StrAppend(&page, "\n", jobs.Render(session.globals().header));
  }
  session.PrintOne(page, ToJson(response), "id");
  if (response.job_count() > static_cast<uint64_t>(response.jobs_size())) {
    session.Say(absl::StrCat("these are the newest ", response.jobs_size(), " of ",
                             response.job_count(), " jobs; the sums are of all"));
  }
  return ExitCode::kDone;
}

}  // namespace

void AddGoodput(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand(
      "goodput", "what the slots that jobs held were good for: every slot-second has one label");
  const auto flags = std::make_shared<GoodputFlags>();
  CLI::Option* job =
      command->add_option("JOB", flags->job, "its id or name; all jobs if not given");
  command->add_option("--project", flags->project, "only jobs of this project")->excludes(job);
  command
      ->add_option("--since", flags->since,
                   "only jobs that ran or ended in the last so long, such as 24h, in full")
      ->excludes(job);
  command->callback([flags, &session, &verb] {
    verb = [flags, &session] { return RunGoodput(*flags, session); };
  });
}

}  // namespace muster::cli
