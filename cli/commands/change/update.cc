// `muster update`: priority, pools and limits of jobs that have not ended.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "cli/calls/change.h"
#include "cli/commands/commands.h"
#include "cli/commands/job_verb.h"
#include "cli/submission/priority.h"
#include "cli/submission/when.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/spec/tree/spec_text.h"

namespace muster::cli {
namespace {

constexpr char kNone[] = "none";

struct UpdateFlags {
  JobVerbFlags jobs;
  std::optional<std::string> priority, pool, max_run_time, deadline, begin;

  bool empty() const {
    return !priority.has_value() && !pool.has_value() && !max_run_time.has_value() &&
           !deadline.has_value() && !begin.has_value();
  }
};

absl::StatusOr<std::string> TimeOrNone(const std::string& text) {
  if (text == kNone) return std::string();
  return ParseWhen(text, WallNow());
}

absl::StatusOr<v1::UpdateJobRequest> UpdateRequest(const UpdateFlags& flags) {
  v1::UpdateJobRequest request;
  if (flags.priority.has_value()) {
    MUSTER_ASSIGN_OR_RETURN(const PriorityText priority, ParsePriority(*flags.priority));
    request.set_priority(TotalPriority(priority));
  }
  if (flags.pool.has_value()) {
    for (const absl::string_view pool : absl::StrSplit(*flags.pool, ',')) {
      request.add_pools(std::string(absl::StripAsciiWhitespace(pool)));
    }
  }
  if (flags.max_run_time.has_value()) {
    absl::Duration most;
    if (*flags.max_run_time != kNone) {
      MUSTER_ASSIGN_OR_RETURN(most, ParseDuration(*flags.max_run_time));
    }
    *request.mutable_max_run_time() = ToProto(most);
  }
  if (flags.deadline.has_value()) {
    MUSTER_ASSIGN_OR_RETURN(*request.mutable_deadline(), TimeOrNone(*flags.deadline));
  }
  if (flags.begin.has_value()) {
    MUSTER_ASSIGN_OR_RETURN(*request.mutable_begin(), TimeOrNone(*flags.begin));
  }
  return request;
}

absl::StatusOr<ExitCode> RunUpdate(const UpdateFlags& flags, Session& session) {
  if (flags.empty()) {
    return WithHint(absl::InvalidArgumentError("nothing to change is given"),
                    "`muster update --help` shows what can be changed");
  }
  MUSTER_ASSIGN_OR_RETURN(v1::UpdateJobRequest request, UpdateRequest(flags));
  request.set_user(UserName(session.host()));
  return ForEachJob(flags.jobs, session, [&](const JobTarget& target) -> absl::StatusOr<JobAnswer> {
    *request.mutable_job() = target.job;
    request.set_whole_array(target.whole_array);
    MUSTER_ASSIGN_OR_RETURN(v1::UpdateJobResponse response,
                            SendChange(session, &Jobs::UpdateJob, request));
    return JobAnswer{.summary = response.summary(), .jobs = response.jobs()};
  });
}

}  // namespace

void AddUpdate(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("update", "change priority, pools or limits of jobs that have not ended");
  const auto flags = std::make_shared<UpdateFlags>();
  AddJobVerbFlags(*command, flags->jobs);
  command->add_option("--priority", flags->priority,
                      "a number from -999 to 999, low, normal, high or urgent, or both: high+5");
  command->add_option("--pool", flags->pool,
                      "in order of preference: a,'b after 10m'; a job that runs keeps its slots");
  command->add_option("--max-run-time", flags->max_run_time,
                      "the longest that it may run in all: 2h30m, or none");
  command->add_option("--deadline", flags->deadline,
                      "when it must have ended: 2026-11-22T10:00:00Z, now+2h, or none");
  command->add_option("--begin", flags->begin, "not before this time: likewise");
  command->callback([flags, &session, &verb] {
    verb = [flags, &session] { return RunUpdate(*flags, session); };
  });
}

}  // namespace muster::cli
