// `muster history`: the jobs that have ended, newest first.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_flags.h"
#include "cli/grammar/past_time.h"
#include "cli/output/views/views.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

constexpr uint32_t kPage = 1000;
// As of `muster ls`.
constexpr size_t kMostOrdered = 100'000;

struct HistoryFlags {
  std::optional<std::string> since, until;
  std::string project;
  std::string owner;
  uint32_t limit = 100;
  ListRequest list;
};

std::vector<ListKey> HistoryKeys() {
  return {{"ended", "finished_ms"}, {"ran", "ran_ms"}, {"slot-hours", "slot_seconds"}};
}

absl::StatusOr<ExitCode> RunHistory(const HistoryFlags& flags, Session& session) {
  v1::ListJobsRequest request;
  for (const v1::JobState state : {v1::SUCCEEDED, v1::FAILED, v1::CANCELLED}) {
    request.add_states(state);
  }
  request.set_project(flags.project);
  MUSTER_ASSIGN_OR_RETURN(const int64_t since, PastMillis("--since", flags.since, WallNow()));
  MUSTER_ASSIGN_OR_RETURN(const int64_t until, PastMillis("--until", flags.until, WallNow()));
  request.set_finished_from_ms(since);
  request.set_finished_before_ms(until);
  MUSTER_ASSIGN_OR_RETURN(
      const ListView view,
      ListView::Create(flags.list, HistoryKeys(), ToJson(v1::JobSummary()), WallNow()));
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  const size_t wanted = view.sorts() ? std::max<size_t>(flags.limit, kMostOrdered) : flags.limit;
  std::vector<v1::JobSummary> jobs;
  do {
    request.set_page_size(kPage);
    MUSTER_ASSIGN_OR_RETURN(v1::ListJobsResponse page,
                            client->Call(&Jobs::ListJobs, request, session.timeout()));
    for (v1::JobSummary& job : *page.mutable_jobs()) {
      const bool meant = (flags.owner.empty() || job.owner() == flags.owner) &&
                         (!view.filters() || view.Keeps(ToJson(job)));
      if (meant && jobs.size() < wanted) jobs.push_back(std::move(job));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && jobs.size() < wanted);
  if (view.sorts()) {
    if (!request.page_token().empty()) {
      session.Say(absl::StrCat("only the newest ", jobs.size(), " jobs were put in order"));
    }
    jobs = view.Arrange(jobs);
    if (jobs.size() > flags.limit) jobs.resize(flags.limit);
  }
  MUSTER_RETURN_IF_ERROR(PrintListView(view, HistoryTable(jobs, NeedsWideTable(view, session)),
                                       ToJsonList(jobs), "id", session));
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
  AddListFlags(*command, flags->list);
  command->callback([flags, &session, &verb] {
    verb = [flags, &session] { return RunHistory(*flags, session); };
  });
}

}  // namespace muster::cli
