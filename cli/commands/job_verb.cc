#include "cli/commands/job_verb.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/output/views/views.h"
#include "cli/session/client.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

absl::StatusOr<JobTarget> TargetOf(absl::string_view text, bool array) {
  JobTarget target;
  const bool all = absl::ConsumeSuffix(&text, "_*");
  MUSTER_ASSIGN_OR_RETURN(target.job, ParseJobRef(text));
  target.whole_array = all || array;
  return target;
}

std::string AnswerText(const JobAnswer& answer, bool whole_array) {
  const v1::JobSummary& job = answer.summary;
  if (whole_array)
    return absl::StrCat("array ", job.array_id(), " ", job.name(), ": ", answer.jobs, " jobs");
  std::string text = absl::StrCat("job ", JobName(job), ": ", v1::JobState_Name(job.state()));
  if (job.held()) absl::StrAppend(&text, " (held)");
  return text;
}

}  // namespace

void AddJobVerbFlags(CLI::App& command, JobVerbFlags& flags) {
  command.add_option("JOB", flags.jobs, "ids or names; 42_3 is task 3 of array 42, 42_* all of it")
      ->required();
  command.add_flag("--array", flags.array, "each JOB means the whole array that it is of");
}

absl::StatusOr<ExitCode> ForEachJob(
    const JobVerbFlags& flags, Session& session,
    const std::function<absl::StatusOr<JobAnswer>(const JobTarget&)>& act) {
  std::vector<v1::JobSummary> done;
  std::vector<std::string> lines;
  absl::Status first;
  for (const std::string& text : flags.jobs) {
    const absl::StatusOr<JobTarget> target = TargetOf(text, flags.array);
    absl::StatusOr<JobAnswer> answer = target.ok() ? act(*target) : target.status();
    if (answer.ok()) {
      lines.push_back(AnswerText(*answer, target->whole_array));
      done.push_back(std::move(answer->summary));
    } else if (first.ok()) {
      first = answer.status();
    } else {
      session.host().err << ErrorText(answer.status(), IsJson(session.globals().format));
    }
  }
  if (session.globals().tables()) {
    for (const std::string& line : lines) session.host().out << line << "\n";
  } else if (!done.empty()) {
    session.PrintList(Table({}), ToJsonList(done), "id");
  }
  if (!first.ok()) return first;
  return ExitCode::kDone;
}

}  // namespace muster::cli
