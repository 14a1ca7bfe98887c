// `muster project`, `quota` and `share`: who may use how much, and who has.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/calls/change.h"
#include "cli/commands/commands.h"
#include "cli/output/views/project_views.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

absl::StatusOr<std::vector<v1::ProjectInfo>> ListProjects(Session& session) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  std::vector<v1::ProjectInfo> projects;
  v1::ListProjectsRequest request;
  do {
    MUSTER_ASSIGN_OR_RETURN(const v1::ListProjectsResponse page,
                            client->Call(&Jobs::ListProjects, request, session.timeout()));
    projects.insert(projects.end(), page.projects().begin(), page.projects().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return projects;
}

absl::StatusOr<ExitCode> ShowProjects(Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const auto projects, ListProjects(session));
  session.PrintList(ProjectTable(projects), ToJsonList(projects), "name");
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> ShowShares(Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const auto projects, ListProjects(session));
  session.PrintList(ShareTable(projects), ToJsonList(projects), "name");
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> SetProject(v1::SetProjectRequest& request, Session& session) {
  request.set_user(UserName(session.host()));
  MUSTER_ASSIGN_OR_RETURN(const v1::SetProjectResponse response,
                          SendChange(session, &Jobs::SetProject, request));
  const std::vector<v1::ProjectInfo> projects = {response.project()};
  session.PrintList(ProjectTable(projects), ToJsonList(projects), "name");
  return ExitCode::kDone;
}

struct SetFlags {
  std::string project;
  double weight = 0;
};

absl::StatusOr<ExitCode> RunSet(const SetFlags& flags, Session& session) {
  v1::SetProjectRequest request;
  request.set_project(flags.project);
  request.set_weight(flags.weight);
  return SetProject(request, session);
}

struct QuotaFlags {
  std::string project;
  std::string user;
  bool each_user = false;
  bool reset = false;
  std::optional<std::string> slots, queued;  // a number, or none
};

// A bound as it was given, or as it is when it was not.
absl::StatusOr<std::optional<uint32_t>> BoundOf(const char* flag,
                                                const std::optional<std::string>& given,
                                                std::optional<uint32_t> before) {
  if (!given.has_value()) return before;
  if (*given == "none") return std::optional<uint32_t>();
  uint32_t bound = 0;
  if (!absl::SimpleAtoi(*given, &bound)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": must be a number or none; got '", *given, "'"));
  }
  return std::optional<uint32_t>(bound);
}

absl::StatusOr<v1::Quota> Changed(const v1::Quota& before, const QuotaFlags& flags) {
  const auto slots = before.has_slots() ? std::optional<uint32_t>(before.slots()) : std::nullopt;
  const auto queued = before.has_queued() ? std::optional<uint32_t>(before.queued()) : std::nullopt;
  MUSTER_ASSIGN_OR_RETURN(const auto new_slots, BoundOf("--slots", flags.slots, slots));
  MUSTER_ASSIGN_OR_RETURN(const auto new_queued, BoundOf("--queued", flags.queued, queued));
  v1::Quota quota;
  if (new_slots.has_value()) quota.set_slots(*new_slots);
  if (new_queued.has_value()) quota.set_queued(*new_queued);
  return quota;
}

absl::StatusOr<ExitCode> SetQuota(const QuotaFlags& flags, Session& session) {
  const bool changes = flags.slots.has_value() || flags.queued.has_value();
  if (changes == flags.reset || (flags.reset && flags.user.empty())) {
    return absl::InvalidArgumentError(
        "give --slots or --queued; or --user and --reset, for what each user has");
  }
  v1::ProjectInfo project;
  MUSTER_ASSIGN_OR_RETURN(const auto projects, ListProjects(session));
  for (const v1::ProjectInfo& known : projects) {
    if (known.name() == flags.project) project = known;
  }
  v1::SetProjectRequest request;
  request.set_project(flags.project);
  if (flags.reset) {
    request.add_reset_users(flags.user);
  } else if (!flags.user.empty()) {
    const auto it = project.users().find(flags.user);
    MUSTER_ASSIGN_OR_RETURN(
        (*request.mutable_users())[flags.user],
        Changed(it == project.users().end() ? project.each_user() : it->second, flags));
  } else if (flags.each_user) {
    MUSTER_ASSIGN_OR_RETURN(*request.mutable_each_user(), Changed(project.each_user(), flags));
  } else {
    MUSTER_ASSIGN_OR_RETURN(*request.mutable_quota(), Changed(project.quota(), flags));
  }
  return SetProject(request, session);
}

void AddProjectVerb(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand("project", "projects: their weights, quotas and use")
                          ->require_subcommand(1);
  command->add_subcommand("ls", "list them")->callback([&session, &verb] {
    verb = [&session] { return ShowProjects(session); };
  });
  CLI::App* set = command->add_subcommand("set", "give a project a weight");
  const auto flags = std::make_shared<SetFlags>();
  set->add_option("NAME", flags->project, "the project")->required();
  set->add_option("--weight", flags->weight,
                  "its share of the slots, against the weights of others (1 unless set)")
      ->required()
      ->check(CLI::Range(0.001, 1000.0));
  set->callback(
      [flags, &session, &verb] { verb = [flags, &session] { return RunSet(*flags, session); }; });
}

void AddQuotaVerb(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("quota", "bounds of projects and users")->require_subcommand(1);
  CLI::App* set = command->add_subcommand("set", "bound what a project, or a user in it, may have");
  const auto flags = std::make_shared<QuotaFlags>();
  set->add_option("PROJECT", flags->project, "the project")->required();
  CLI::Option* user = set->add_option("--user", flags->user, "of this user within it");
  set->add_flag("--each-user", flags->each_user, "of each user without a quota of their own")
      ->excludes(user);
  set->add_flag("--reset", flags->reset, "the user has what each user has again")->needs(user);
  set->add_option("--slots", flags->slots, "held at a time, or none");
  set->add_option("--queued", flags->queued, "jobs that wait at a time, or none");
  set->callback(
      [flags, &session, &verb] { verb = [flags, &session] { return SetQuota(*flags, session); }; });
}

}  // namespace

void AddProject(CLI::App& app, Session& session, Verb& verb) {
  AddProjectVerb(app, session, verb);
  AddQuotaVerb(app, session, verb);
  app.add_subcommand("share", "what projects may use, and have used of late")
      ->callback([&session, &verb] { verb = [&session] { return ShowShares(session); }; });
}

}  // namespace muster::cli
