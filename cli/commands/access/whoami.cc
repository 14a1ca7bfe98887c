// `muster whoami`: who the token in use says one is, and what one may do.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands/access/access_verbs.h"
#include "cli/output/text.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

absl::StatusOr<ExitCode> RunWhoAmI(Session& session) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  MUSTER_ASSIGN_OR_RETURN(const v1::WhoAmIResponse who,
                          client->Call(&Access::WhoAmI, v1::WhoAmIRequest(), session.timeout()));
  Json json = ToJson(who);
  json["address"] = client->endpoint().address;
  const std::string token =
      who.token_name().empty()
          ? "the one in the controller's data folder"
          : absl::StrCat(who.token_name(),
                         who.token_expires_ms() == 0
                             ? ", never expires"
                             : absl::StrCat(", expires ", TimeText(who.token_expires_ms())));
  session.PrintOne(
      absl::StrCat("user   ", who.user(), "\n", "roles  ", GrantsText(who.grants()), "\n",
                   "token  ", token, "\n", "at     ", client->endpoint().address, "\n"),
      json, "user");
  return ExitCode::kDone;
}

}  // namespace

std::string GrantsText(const google::protobuf::RepeatedPtrField<v1::RoleGrant>& grants) {
  if (grants.empty()) return "none";
  return absl::StrJoin(grants, ", ", [](std::string* out, const v1::RoleGrant& grant) {
    absl::StrAppend(out, absl::AsciiStrToLower(v1::Role_Name(grant.role())), " in ",
                    grant.project());
  });
}

void AddWhoAmI(CLI::App& app, Session& session, Verb& verb) {
  app.add_subcommand("whoami", "who you are to the controller, and what you may do")
      ->callback([&session, &verb] { verb = [&session] { return RunWhoAmI(session); }; });
}

}  // namespace muster::cli
