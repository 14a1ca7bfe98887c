// `muster submit`: a job from a file to the controller.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/commands/commands.h"
#include "cli/commands/trainer/sibling_program.h"
#include "cli/output/views/explain_view.h"
#include "cli/output/views/views.h"
#include "cli/output/views/watch_view.h"
#include "cli/submission/command_job.h"
#include "cli/submission/spec_file.h"
#include "cli/submission/submission.h"
#include "cli/submission/submit_flags.h"
#include "cli/submission/upload.h"
#include "common/base/deadline.h"
#include "common/base/status_macros.h"
#include "common/spec/load_spec.h"
#include "common/spec/spec_writer.h"
#include "common/spec/validate/spec_defaults.h"

namespace muster::cli {
namespace {

// After a wait was cut short, jobs are asked how they ended for at most this long.
constexpr absl::Duration kTellPatience = absl::Seconds(3);

// The first line says how much is wrong with which file, each further line is one fault.
absl::StatusOr<v1::JobSpec> ReadJob(const SubmitFlags& flags, Session& session) {
  const std::vector<std::string>& program = session.globals().program;
  if (flags.file.empty() == program.empty()) {
    return WithHint(absl::InvalidArgumentError("a job is either a file or a program"),
                    "`muster submit job.yaml`, or `muster submit -- python train.py`; "
                    "`muster submit --help` shows more");
  }
  SpecSource source;
  source.name = program.empty() ? flags.file == "-" ? "stdin" : flags.file : "command";
  std::string text;
  if (program.empty()) {
    MUSTER_ASSIGN_OR_RETURN(text, ReadSpecText(flags.file, session));
  } else {
    MUSTER_ASSIGN_OR_RETURN(text, CommandJobText(program));
  }
  MUSTER_ASSIGN_OR_RETURN(source.overrides, SpecOverrides(flags, WallNow()));
  source.base_dir = BaseDirOfSpec(flags.file);
  source.overrides_dir = WorkingDirectory();
  return LoadWrittenSpec(text, source);
}

constexpr char kNoneToResume[] = "nothing: no job of its name has a checkpoint";

Json ResumeJson(const v1::SubmitResponse& response) {
  return response.has_resume_from() ? ToJson(response.resume_from()) : Json();
}

// The spec alone, so that it can be saved and submitted; what would become of it stands beside it,
// or with it in JSON.
void PrintDryRun(const v1::SubmitResponse& response, Session& session) {
  const Json spec =
      Json::parse(SpecToJson(response.resolved_spec()), nullptr, /*allow_exceptions=*/false);
  if (IsJson(session.globals().format)) {
    const Json json = {{"spec", spec},
                       {"forecast", response.forecast()},
                       {"outlook", ToJson(response.outlook())},
                       {"resume_from", ResumeJson(response)}};
    session.PrintOne("", json, "spec");
    return;
  }
  session.Say(response.forecast());
  if (response.resolved_spec().checkpoint().has_resume_from()) {
    session.Say(absl::StrCat("begins:   from ", response.has_resume_from()
                                                    ? ResumeSourceText(response.resume_from())
                                                    : kNoneToResume));
  }
  const std::string page = OutlookPage(response.outlook(), WallNow());
  for (const absl::string_view line : absl::StrSplit(page, '\n', absl::SkipEmpty())) {
    session.Say(line);
  }
  session.PrintOne(SpecToYaml(response.resolved_spec()), spec, "name");
}

void PrintSubmitted(const v1::SubmitResponse& response, Session& session) {
  const std::string page = absl::StrCat(SubmittedText(response), "\n");
  // The spec as JSON takes longer to make than all else that a submit computes.
  if (session.globals().tables()) {
    session.host().out << page;
    return;
  }
  const Json json = {{"job_id", response.job_id()},
                     {"jobs", response.jobs()},
                     {"name", response.resolved_spec().name()},
                     {"already_existed", response.already_existed()},
                     {"resume_from", ResumeJson(response)},
                     {"spec", Json::parse(SpecToJson(response.resolved_spec()), nullptr,
                                          /*allow_exceptions=*/false)}};
  session.PrintOne(page, json, "job_id");
}

// Tells each of these jobs that has ended, for a few seconds at most: nobody waits any more.
void TellEnded(uint64_t first_id, uint64_t end_id, Session& session,
               const std::function<void(const v1::JobSummary&)>& tell) {
  const absl::StatusOr<Client*> client = session.Connect();
  if (!client.ok()) return;
  const Deadline deadline(kTellPatience);
  for (uint64_t id = first_id; id < end_id; ++id) {
    v1::GetJobRequest request;
    request.mutable_job()->set_id(id);
    const auto job =
        (*client)->Call(&Jobs::GetJob, request, std::min(session.timeout(), deadline.left()));
    if (!job.ok()) {
      session.Say(absl::StrCat("not asked any more: jobs ", id, " to ", end_id - 1,
                               "; `muster ls` tells how they are"));
      return;
    }
    if (IsTerminal(job->summary().state())) tell(job->summary());
  }
}

// Until every job of the submit has ended; the first that did not succeed decides the exit code.
absl::StatusOr<ExitCode> WaitForAll(const v1::SubmitResponse& response, Session& session) {
  v1::JobRef job;
  job.set_id(response.job_id());
  if (response.jobs() == 1) return WaitForJob(session, job);
  const absl::Duration began = SteadyNow();
  absl::StatusOr<ExitCode> first = ExitCode::kDone;
  std::vector<Json> ended;
  const auto tell = [&](const v1::JobSummary& summary) {
    if (session.globals().tables()) session.host().out << OutcomeText(summary) << std::endl;
    ended.push_back(ToJson(summary));
  };
  const uint64_t end_id = response.job_id() + response.jobs();
  for (uint64_t id = response.job_id(); first.ok() && id < end_id; ++id) {
    job.set_id(id);
    const absl::StatusOr<v1::JobSummary> summary = FollowToEnd(session, job, began);
    if (summary.ok()) {
      tell(*summary);
      if (*first == ExitCode::kDone) first = ExitCodeOf(*summary);
    } else {
      first = summary.status();
      TellEnded(id, end_id, session, tell);
    }
  }
  if (!session.globals().tables()) session.PrintList(Table({}), ended, "id");
  return first;
}

// `muster check`, told on stderr: stdout is for the job. Its warnings fail it, too.
absl::Status CheckFirst(v1::JobSpec spec, Session& session) {
  FillDefaults(spec);
  if (!spec.has_train()) {
    return absl::InvalidArgumentError("--check looks at a recipe, and this job has no `train`");
  }
  const absl::StatusOr<std::string> page =
      RunTrainer({"check", "--strict", "--spec", "-"}, SpecToJson(spec), session.host());
  if (!page.ok())
    return WithHint(page.status(), "nothing was submitted; without --check it would be");
  for (const absl::string_view line : absl::StrSplit(*page, '\n', absl::SkipEmpty()))
    session.Say(line);
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> RunSubmit(SubmitFlags flags, Session& session) {
  v1::SubmitRequest request;
  MUSTER_ASSIGN_OR_RETURN(const std::optional<PackedFolder> upload, PackUpload(flags));
  if (flags.watch) MUSTER_RETURN_IF_ERROR(session.CheckLineFormat());
  MUSTER_RETURN_IF_ERROR(ResolveAfter(flags.after, session));
  MUSTER_ASSIGN_OR_RETURN(*request.mutable_spec(), ReadJob(flags, session));
  if (flags.watch && request.spec().scheduling().has_array()) {
    return WithHint(absl::InvalidArgumentError("--watch shows one job, not an array"),
                    "submit it with --wait, or `muster watch 42_3` one of its tasks");
  }
  if (flags.check) MUSTER_RETURN_IF_ERROR(CheckFirst(request.spec(), session));
  if (!flags.dry_run) MUSTER_RETURN_IF_ERROR(SendUpload(upload, session));
  request.set_dry_run(flags.dry_run);
  request.set_idempotency_key(flags.key);
  MUSTER_ASSIGN_OR_RETURN(
      const v1::SubmitResponse response,
      flags.dry_run ? SendJob(request, session) : SendJobIn(upload, request, session));
  if (flags.dry_run) {
    PrintDryRun(response, session);
    return ExitCode::kDone;
  }
  if (!flags.wait && !flags.watch) {
    PrintSubmitted(response, session);
    return ExitCode::kDone;
  }
  session.Say(SubmittedText(response));
  if (!flags.watch) return WaitForAll(response, session);
  v1::JobRef job;
  job.set_id(response.job_id());
  return WatchJob(session, job);
}

}  // namespace

void AddSubmit(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("submit", "submit a job: `job.yaml`, or any program: `-- CMD ARGS...`");
  const auto flags = std::make_shared<SubmitFlags>();
  AddSubmitFlags(*command, *flags);
  command->callback([flags, &session, &verb] {
    verb = [flags, &session] { return RunSubmit(*flags, session); };
  });
}

}  // namespace muster::cli
