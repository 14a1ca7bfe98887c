// `muster history`: the jobs that have ended, newest first.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/output/views/views.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/spec/tree/scheduling_text.h"

namespace muster::cli {
namespace {

constexpr uint32_t kPage = 1000;

struct HistoryFlags {
  std::optional<std::string> since, until;
  std::string project;
  std::string owner;
  uint32_t limit = 100;
};

// A time as RFC 3339, or so long ago as `2h30m`.
absl::StatusOr<int64_t> MillisOf(const char* flag, const std::optional<std::string>& text) {
  if (!text.has_value()) return 0;
  if (const auto ago = ParseDuration(*text); ago.ok()) {
    return absl::ToUnixMillis(WallNow() - *ago);
  }
  const auto time = ParseWallTime(*text);
  if (time.ok()) return absl::ToUnixMillis(*time);
  return absl::InvalidArgumentError(absl::StrCat(
      flag, ": must be a time such as 2026-11-22T10:00:00Z, or how long ago, such as 24h; got '",
      *text, "'"));
}

absl::StatusOr<ExitCode> RunHistory(const HistoryFlags& flags, Session& session) {
  v1::ListJobsRequest request;
  for (const v1::JobState state : {v1::SUCCEEDED, v1::FAILED, v1::CANCELLED}) {
    request.add_states(state);
  }
  request.set_project(flags.project);
  MUSTER_ASSIGN_OR_RETURN(const int64_t since, MillisOf("--since", flags.since));
  MUSTER_ASSIGN_OR_RETURN(const int64_t until, MillisOf("--until", flags.until));
  request.set_finished_from_ms(since);
  request.set_finished_before_ms(until);
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  std::vector<v1::JobSummary> jobs;
  do {
    request.set_page_size(kPage);
    MUSTER_ASSIGN_OR_RETURN(v1::ListJobsResponse page,
                            client->Call(&Jobs::ListJobs, request, session.timeout()));
    for (v1::JobSummary& job : *page.mutable_jobs()) {
      const bool meant = flags.owner.empty() || job.owner() == flags.owner;
      if (meant && jobs.size() < flags.limit) jobs.push_back(std::move(job));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && jobs.size() < flags.limit);
  session.PrintList(HistoryTable(jobs, session.globals().wide()), ToJsonList(jobs), "id");
  return ExitCode::kDone;
}

}  // namespace

void AddHistory(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("history", "the jobs that have ended, how long they ran, what they held");
  const auto flags = std::make_shared<HistoryFlags>();
  command->add_option("--since", flags->since, "ended since: a time, or how long ago (24h)");
  command->add_option("--until", flags->until, "ended before: likewise");
  command->add_option("--project", flags->project, "only jobs of this project");
  command->add_option("--owner", flags->owner, "only jobs of this user");
  command->add_option("-n,--limit", flags->limit, "at most so many")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1'000'000u));
  command->callback([flags, &session, &verb] {
    verb = [flags, &session] { return RunHistory(*flags, session); };
  });
}

}  // namespace muster::cli
