// `muster user`: who may use the cluster, and what they may do in which project.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/calls/change.h"
#include "cli/commands/access/access_verbs.h"
#include "cli/output/text.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

struct UserFlags {
  std::string user;
  std::string project;
  std::string role;
  bool reuse_name = false;
};

absl::StatusOr<ExitCode> ListUsers(Session& session) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  std::vector<v1::UserInfo> users;
  v1::ListUsersRequest request;
  do {
    MUSTER_ASSIGN_OR_RETURN(const v1::ListUsersResponse page,
                            client->Call(&Access::ListUsers, request, session.timeout()));
    users.insert(users.end(), page.users().begin(), page.users().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  Table table({{.title = "USER"},
               {.title = "ROLES", .wrap = true},
               {.title = "TOKENS", .right = true},
               {.title = "AGE", .right = true}});
  for (const v1::UserInfo& user : users) {
    table.Add({user.name(), GrantsText(user.grants()), absl::StrCat(user.tokens()),
               Age(WallNow(), user.created_ms())});
  }
  session.PrintList(table, ToJsonList(users), "name");
  return ExitCode::kDone;
}

void Tell(Session& session, const std::string& line, const Json& json) {
  session.PrintOne(absl::StrCat(line, "\n"), json, "user");
}

absl::StatusOr<ExitCode> RunAddUser(const UserFlags& flags, Session& session) {
  v1::AddUserRequest request;
  request.set_user(flags.user);
  request.set_reuse_name(flags.reuse_name);
  MUSTER_ASSIGN_OR_RETURN(const v1::AddUserResponse added,
                          SendChange(session, &Access::AddUser, request));
  Tell(
      session,
      absl::StrCat("user ", flags.user, added.already_existed() ? ": was there already" : ": added",
                   "; next: muster user grant ", flags.user, " PROJECT ROLE"),
      {{"user", flags.user}, {"already_existed", added.already_existed()}});
  return ExitCode::kDone;
}

// Where an earlier try did it and its answer was lost, the next one finds nothing.
absl::Status Done(const absl::Status& status, int lost_tries) {
  return absl::IsNotFound(status) && lost_tries > 0 ? absl::OkStatus() : status;
}

absl::StatusOr<ExitCode> RunRemoveUser(const UserFlags& flags, Session& session) {
  v1::RemoveUserRequest request;
  request.set_user(flags.user);
  int lost_tries = 0;
  const absl::StatusOr<v1::RemoveUserResponse> removed =
      SendChange(session, &Access::RemoveUser, request, /*guard=*/nullptr, &lost_tries);
  MUSTER_RETURN_IF_ERROR(Done(removed.status(), lost_tries));
  Tell(session,
       absl::StrCat("user ", flags.user, ": removed, with ", removed.ok() ? removed->tokens() : 0,
                    " tokens"),
       {{"user", flags.user}, {"removed", true}});
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> RunGrant(const UserFlags& flags, Session& session) {
  v1::GrantRoleRequest request;
  v1::Role role = v1::ROLE_UNSPECIFIED;
  if (!v1::Role_Parse(absl::AsciiStrToUpper(flags.role), &role) || role == v1::ROLE_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", flags.role, "' is no role: there are viewer, user, operator and admin"));
  }
  request.set_user(flags.user);
  request.set_project(flags.project);
  request.set_role(role);
  MUSTER_RETURN_IF_ERROR(SendChange(session, &Access::GrantRole, request).status());
  Tell(session, absl::StrCat("user ", flags.user, ": is ", flags.role, " in ", flags.project),
       {{"user", flags.user}, {"project", flags.project}, {"role", v1::Role_Name(role)}});
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> RunRevoke(const UserFlags& flags, Session& session) {
  v1::RevokeRoleRequest request;
  request.set_user(flags.user);
  request.set_project(flags.project);
  int lost_tries = 0;
  MUSTER_RETURN_IF_ERROR(Done(
      SendChange(session, &Access::RevokeRole, request, /*guard=*/nullptr, &lost_tries).status(),
      lost_tries));
  Tell(session, absl::StrCat("user ", flags.user, ": has no role of their own in ", flags.project),
       {{"user", flags.user}, {"project", flags.project}, {"role", nullptr}});
  return ExitCode::kDone;
}

}  // namespace

void AddUser(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("user", "who may use the cluster, and what for")->require_subcommand(1);
  command->add_subcommand("ls", "list them, with their roles")->callback([&session, &verb] {
    verb = [&session] { return ListUsers(session); };
  });
  const auto flags = std::make_shared<UserFlags>();
  const auto add = [&, flags](const char* name, const char* help, auto run) {
    CLI::App* one = command->add_subcommand(name, help);
    one->add_option("USER", flags->user, "the user's name")->required();
    one->callback([flags, run, &session, &verb] {
      verb = [flags, run, &session] { return run(*flags, session); };
    });
    return one;
  };
  add("add", "a new one, who may do nothing yet", &RunAddUser)
      ->add_flag("--reuse-name", flags->reuse_name,
                 "also a name of one who was taken out, whose jobs become theirs");
  add("rm", "take one out, with their tokens; their jobs go on", &RunRemoveUser);
  CLI::App* grant = add("grant", "give a role in a project", &RunGrant);
  grant
      ->add_option("PROJECT", flags->project,
                   "the project; '*': all of them, and workers and users")
      ->required();
  grant
      ->add_option("ROLE", flags->role,
                   "viewer reads; user submits and controls their own jobs; operator controls all "
                   "jobs; admin also gives roles")
      ->required();
  CLI::App* revoke = add("revoke", "take the role in a project back", &RunRevoke);
  revoke->add_option("PROJECT", flags->project, "the project, or '*'")->required();
}

}  // namespace muster::cli
