// `muster ls`: the jobs, newest first.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_flags.h"
#include "cli/output/views/views.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

constexpr uint32_t kMaxJobsAPage = 1000;
constexpr uint32_t kMostJobs = 1'000'000;
// The first by some order are among all that there are. More are not kept to be put in order.
constexpr size_t kMostSorted = 100'000;

struct LsFlags {
  std::vector<std::string> states;
  std::string project;
  std::vector<std::string> tags;
  uint32_t limit = 100;
  bool all = false;
  ListRequest list;
};

std::vector<ListKey> LsKeys() {
  return {{"rate", "samples_per_second"},
          {"age", "submitted_ms", /*age=*/true},
          {"prio", "priority"},
          {"accuracy", "best_validation_accuracy"}};
}

std::string StateNames() {
  std::vector<std::string> names;
  const auto* states = v1::JobState_descriptor();
  for (int i = 0; i < states->value_count(); ++i) {
    if (states->value(i)->number() == v1::JOB_STATE_UNSPECIFIED) continue;
    names.push_back(absl::AsciiStrToLower(states->value(i)->name()));
  }
  return absl::StrJoin(names, ", ");
}

absl::StatusOr<v1::ListJobsRequest> LsRequest(const LsFlags& flags) {
  v1::ListJobsRequest request;
  request.set_project(flags.project);
  for (const std::string& text : flags.states) {
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
    if (!v1::JobState_Parse(absl::AsciiStrToUpper(text), &state) ||
        state == v1::JOB_STATE_UNSPECIFIED) {
      return absl::InvalidArgumentError(
          absl::StrCat("--state ", text, ": no such state; there are ", StateNames()));
    }
    request.add_states(state);
  }
  for (const std::string& tag : flags.tags) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(tag, absl::MaxSplits('=', 1));
    if (pair.first.empty() || pair.first.size() == tag.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--tag ", tag, ": must be NAME=VALUE"));
    }
    const auto added = request.mutable_tags()->insert({pair.first, pair.second});
    if (!added.second && added.first->second != pair.second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--tag ", tag, ": no job has two values of ", pair.first));
    }
  }
  return request;
}

absl::StatusOr<ExitCode> RunLs(const LsFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(v1::ListJobsRequest request, LsRequest(flags));
  MUSTER_ASSIGN_OR_RETURN(
      const ListView view,
      ListView::Create(flags.list, LsKeys(), ToJson(v1::JobSummary()), WallNow()));
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  const size_t limit = flags.all ? kMostJobs : flags.limit;
  const size_t wanted = view.sorts() ? std::max(limit, kMostSorted) : limit;
  const bool counts_all = view.sorts() || view.filters();
  std::vector<v1::JobSummary> jobs;
  do {
    const size_t left = wanted - jobs.size();
    request.set_page_size(counts_all ? kMaxJobsAPage : std::min<size_t>(kMaxJobsAPage, left));
    MUSTER_ASSIGN_OR_RETURN(v1::ListJobsResponse page,
                            client->Call(&Jobs::ListJobs, request, session.timeout()));
    for (v1::JobSummary& job : *page.mutable_jobs()) {
      if (!view.filters() || view.Keeps(ToJson(job))) jobs.push_back(std::move(job));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && jobs.size() < wanted);
  bool more = !request.page_token().empty();
  if (view.sorts()) {
    if (more) {
      session.Say(absl::StrCat("only the newest ", jobs.size(), " jobs were put in order"));
    }
    jobs = view.Arrange(jobs);
  }
  if (jobs.size() > limit) {
    jobs.resize(limit);
    more = true;
  }
  MUSTER_RETURN_IF_ERROR(PrintListView(view,
                                       JobTable(jobs, WallNow(), NeedsWideTable(view, session)),
                                       ToJsonList(jobs), "id", session));
  if (more) {
    session.Say(absl::StrCat("there are more: these are the ", view.sorts() ? "first " : "newest ",
                             jobs.size(), " (--limit shows more, --all all)"));
  }
  return ExitCode::kDone;
}

}  // namespace

void AddLs(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand("ls", "list the jobs, newest first");
  const auto flags = std::make_shared<LsFlags>();
  command->add_option("--state", flags->states, "only jobs in this state (repeatable)")
      ->delimiter(',');
  command->add_option("--project", flags->project, "only jobs of this project");
  command
      ->add_option("--tag", flags->tags, "only jobs with the tag NAME=VALUE (repeatable: with all)")
      ->allow_extra_args(false);
  CLI::Option* limit = command->add_option("-n,--limit", flags->limit, "at most so many");
  limit->capture_default_str()->check(CLI::Range(1u, kMostJobs));
  command->add_flag("-a,--all", flags->all, "however many there are")->excludes(limit);
  AddListFlags(*command, flags->list);
  command->callback(
      [flags, &session, &verb] { verb = [flags, &session] { return RunLs(*flags, session); }; });
}

}  // namespace muster::cli
