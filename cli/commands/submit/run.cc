// `muster run -- CMD`: a program as a job in the foreground, as if it ran here.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands/foreground.h"
#include "cli/commands/submit/run_follow.h"
#include "cli/output/views/watch_view.h"
#include "cli/session/interrupt.h"
#include "cli/submission/command_job.h"
#include "cli/submission/submission.h"
#include "cli/submission/submit_flags.h"
#include "cli/submission/upload.h"
#include "common/base/status_macros.h"
#include "common/spec/load_spec.h"

namespace muster::cli {
namespace {

struct RunFlags {
  SubmitFlags job;
  std::string prefix = "auto";
  bool detach = false;
};

absl::StatusOr<v1::JobSpec> MakeJob(SubmitFlags flags, Session& session) {
  const std::vector<std::string>& program = session.globals().program;
  if (program.empty()) {
    return WithHint(absl::InvalidArgumentError("there is no program to run"),
                    "`muster run -- python train.py`; `muster run --help` shows more");
  }
  SpecSource source;
  source.name = "command";
  // Who waits for a program wants to see it fail, not to see it tried again.
  flags.sets.insert(flags.sets.begin(), "restart.max_restarts=0");
  MUSTER_ASSIGN_OR_RETURN(source.overrides, SpecOverrides(flags, WallNow()));
  source.base_dir = WorkingDirectory();
  source.overrides_dir = WorkingDirectory();
  MUSTER_ASSIGN_OR_RETURN(const std::string text, CommandJobText(program));
  MUSTER_ASSIGN_OR_RETURN(v1::JobSpec spec, LoadWrittenSpec(text, source));
  if (spec.scheduling().has_array()) {
    return WithHint(absl::InvalidArgumentError("`muster run` stays with one job, not an array"),
                    "`muster submit --array` sends one");
  }
  return spec;
}

absl::StatusOr<ExitCode> RunJob(RunFlags flags, Session& session) {
  v1::SubmitRequest request;
  MUSTER_ASSIGN_OR_RETURN(const std::optional<PackedFolder> upload, PackUpload(flags.job));
  MUSTER_ASSIGN_OR_RETURN(*request.mutable_spec(), MakeJob(flags.job, session));
  MUSTER_RETURN_IF_ERROR(SendUpload(upload, session));
  request.set_idempotency_key(flags.job.key);
  InterruptGuard guard;  // from here on Ctrl-C concerns the job
  MUSTER_ASSIGN_OR_RETURN(const v1::SubmitResponse submitted,
                          SendJobIn(upload, request, session, &guard));
  if (flags.detach) {
    const Json json = {{"job_id", submitted.job_id()},
                       {"name", submitted.resolved_spec().name()},
                       {"already_existed", submitted.already_existed()}};
    session.PrintOne(absl::StrCat(SubmittedText(submitted), "\n"), json, "job_id");
    return ExitCode::kDone;
  }
  session.Say(SubmittedText(submitted));
  RunOptions options;
  options.job_id = submitted.job_id();
  options.prefix = flags.prefix == "auto" ? submitted.resolved_spec().ranks().max() > 1
                                          : flags.prefix == "always";
  MUSTER_ASSIGN_OR_RETURN(const RunOutcome outcome, FollowRun(options, session, guard));
  if (outcome.job.summary().state() != v1::SUCCEEDED) {
    session.Say(OutcomeText(outcome.job.summary()));
  }
  if (outcome.interrupted) return ExitCode::kInterrupted;
  return static_cast<ExitCode>(ProgramExitCode(outcome.job));
}

}  // namespace

absl::StatusOr<ExitCode> RunProgramJob(ProgramJob job, Session& session) {
  session.globals().program = std::move(job.program);
  RunFlags flags;
  flags.job.name = std::move(job.name);
  flags.job.workdir = std::move(job.workdir);
  flags.job.project = std::move(job.project);
  flags.job.pool = std::move(job.pool);
  flags.detach = job.detach;
  return RunJob(std::move(flags), session);
}

void AddRun(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand(
      "run",
      "run a program as a job and stay: `-- CMD ARGS...`; its output, its exit code; Ctrl-C "
      "cancels it");
  const auto flags = std::make_shared<RunFlags>();
  AddJobFlags(*command, flags->job);
  command
      ->add_option("--prefix", flags->prefix,
                   "auto, always or never: start each line with its rank, \"a1.r0 | \" (auto: "
                   "when there are several)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->add_flag("-d,--detach", flags->detach,
                    "do not stay: print the job and leave it running (-q: its id alone)");
  command->callback(
      [flags, &session, &verb] { verb = [flags, &session] { return RunJob(*flags, session); }; });
}

}  // namespace muster::cli
