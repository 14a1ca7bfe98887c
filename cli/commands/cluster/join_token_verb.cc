#include "cli/commands/cluster/join_token_verb.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/calls/change.h"
#include "cli/output/proto_json.h"
#include "cli/output/text.h"
#include "cli/session/enroll_stub.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

struct JoinTokenFlags {
  uint32_t uses = 1;
  std::string lifetime = "1h";
  std::string prefix;
  bool replace = false;
  std::vector<std::string> ids;
};

std::string CheckLifetime(const std::string& text) {
  const auto duration = ParseDuration(text);
  return duration.ok() ? "" : std::string(duration.status().message());
}

std::string StateOf(const v1::JoinToken& token) {
  if (token.revoked()) return "revoked";
  if (token.expires_ms() <= absl::ToUnixMillis(WallNow())) return "expired";
  return token.uses() >= token.max_uses() ? "used up" : "valid";
}

Table TokenTable(const std::vector<v1::JoinToken>& tokens) {
  Table table({{"ID"}, {"STATE"}, {"USES", true}, {"EXPIRES"}, {"NAMES"}, {"BY"}});
  for (const v1::JoinToken& token : tokens) {
    table.Add({token.id(), StateOf(token), absl::StrCat(token.uses(), "/", token.max_uses()),
               TimeText(token.expires_ms()),
               token.name_prefix().empty() ? "any" : absl::StrCat(token.name_prefix(), "..."),
               Plain(token.created_by())});
  }
  return table;
}

absl::StatusOr<ExitCode> CreateToken(const JoinTokenFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const absl::Duration lifetime, ParseDuration(flags.lifetime));
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  v1::CreateJoinTokenRequest request;
  request.set_max_uses(flags.uses);
  request.set_lifetime_ms(absl::ToInt64Milliseconds(lifetime));
  request.set_name_prefix(flags.prefix);
  request.set_may_replace(flags.replace);
  request.set_user(UserName(session.host()));
  // Once: a token whose answer was lost is known to nobody, and expires.
  MUSTER_ASSIGN_OR_RETURN(
      const v1::CreateJoinTokenResponse made,
      client->CallOnce(&Enrollments::CreateJoinToken, request, session.timeout()));
  if (!session.globals().tables()) {
    Json item = ToJson(made.token());
    item["token"] = made.text();
    session.PrintOne("", item, "token");
    return ExitCode::kDone;
  }
  session.Say(absl::StrCat("join token ", made.token().id(), ": ", made.token().max_uses(),
                           made.token().max_uses() == 1 ? " use" : " uses", " until ",
                           TimeText(made.token().expires_ms()),
                           " UTC; it is shown once. On the machine, as the agent's user:"));
  session.host().out << "MUSTER_JOIN_TOKEN=" << made.text() << " muster-worker join "
                     << client->endpoint().address << " --data-dir /var/lib/muster/worker\n";
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> ListTokens(Session& session) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  MUSTER_ASSIGN_OR_RETURN(
      const v1::ListJoinTokensResponse list,
      client->Call(&Enrollments::ListJoinTokens, v1::ListJoinTokensRequest(), session.timeout()));
  const std::vector<v1::JoinToken> tokens(list.tokens().begin(), list.tokens().end());
  session.PrintList(TokenTable(tokens), ToJsonList(tokens), "id");
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> RevokeTokens(const JoinTokenFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  std::vector<v1::JoinToken> revoked;
  for (const std::string& id : flags.ids) {
    v1::RevokeJoinTokenRequest request;
    request.set_id(id);
    MUSTER_ASSIGN_OR_RETURN(
        v1::RevokeJoinTokenResponse response,
        client->CallOnce(&Enrollments::RevokeJoinToken, request, session.timeout()));
    revoked.push_back(std::move(*response.mutable_token()));
  }
  session.PrintList(TokenTable(revoked), ToJsonList(revoked), "id");
  return ExitCode::kDone;
}

absl::Status RevokeOne(const std::string& name, Session& session, std::vector<Json>& revoked) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  v1::RevokeCertificateRequest request;
  request.set_name(name);
  request.set_user(UserName(session.host()));
  MUSTER_ASSIGN_OR_RETURN(
      const v1::RevokeCertificateResponse response,
      client->CallOnce(&Enrollments::RevokeCertificate, request, session.timeout()));
  revoked.push_back(ToJson(response.certificate()));
  if (session.globals().tables()) {
    session.host().out << "worker " << name << ": its certificates are refused from now on\n";
  }
  if (response.has_live_token()) {
    const v1::JoinToken& token = response.live_token();
    session.Say(absl::StrCat(
        "it came by join token ", token.id(), ", which has ", token.max_uses() - token.uses(),
        " uses left for other names: `muster join-token revoke ", token.id(), "` ends that"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExitCode> RevokeCertificates(const std::vector<std::string>& names,
                                            Session& session) {
  std::vector<Json> revoked;
  absl::Status first;
  for (const std::string& name : names) {
    const absl::Status done = RevokeOne(name, session, revoked);
    if (done.ok()) continue;
    if (first.ok()) {
      first = done;
    } else {
      session.host().err << ErrorText(done, IsJson(session.globals().format));
    }
  }
  if (!session.globals().tables() && !revoked.empty()) {
    session.PrintList(Table({}), revoked, "name");
  }
  if (!first.ok()) return first;
  return ExitCode::kDone;
}

void AddJoinToken(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("join-token", "tokens by which machines become workers (ls unless given)");
  command->require_subcommand(0, 1);
  const auto flags = std::make_shared<JoinTokenFlags>();
  CLI::App* create = command->add_subcommand(
      "create", "make a token, and print the command that the machine is to run");
  create->add_option("--uses", flags->uses, "so many machines may join by it")
      ->capture_default_str();
  create->add_option("--for", flags->lifetime, "how long it is valid, as 30m or 7d")
      ->capture_default_str()
      ->check(CheckLifetime);
  create->add_option("--name-prefix", flags->prefix,
                     "what the names of the workers must begin with, as gpu-");
  create->add_flag("--replace", flags->replace,
                   "let a machine take the name of another that has a valid certificate, which is "
                   "refused from then on");
  command->add_subcommand("ls", "list the tokens, without their secrets");
  CLI::App* revoke = command->add_subcommand("revoke", "let nobody join by these tokens any more");
  revoke->add_option("ID", flags->ids, "ids of tokens")->required();
  command->callback([=, &session, &verb] {
    if (create->parsed()) {
      verb = [flags, &session] { return CreateToken(*flags, session); };
    } else if (revoke->parsed()) {
      verb = [flags, &session] { return RevokeTokens(*flags, session); };
    } else {
      verb = [&session] { return ListTokens(session); };
    }
  });
}

}  // namespace muster::cli
