// `muster token`: by what users show who they are.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/calls/change.h"
#include "cli/commands/access/access_verbs.h"
#include "cli/output/text.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

struct TokenFlags {
  std::string user;
  std::string name = "default";
  std::string expires = "90d";
  bool all = false;
  uint64_t id = 0;
};

std::string StateOf(const v1::TokenInfo& token, absl::Time now) {
  if (token.revoked_ms() != 0) return "revoked";
  const bool over = token.expires_ms() != 0 && absl::ToUnixMillis(now) >= token.expires_ms();
  return over ? "expired" : "valid";
}

absl::StatusOr<ExitCode> ListTokens(const TokenFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  std::vector<v1::TokenInfo> tokens;
  v1::ListTokensRequest request;
  request.set_user(flags.user);
  do {
    MUSTER_ASSIGN_OR_RETURN(const v1::ListTokensResponse page,
                            client->Call(&Access::ListTokens, request, session.timeout()));
    for (const v1::TokenInfo& token : page.tokens()) {
      if (flags.all || StateOf(token, WallNow()) == "valid") tokens.push_back(token);
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  Table table({{.title = "ID", .right = true},
               {.title = "USER"},
               {.title = "NAME"},
               {.title = "STATE"},
               {.title = "EXPIRES"},
               {.title = "USED", .right = true},
               {.title = "AGE", .right = true}});
  for (const v1::TokenInfo& token : tokens) {
    table.Add({absl::StrCat(token.id()), token.user(), token.name(), StateOf(token, WallNow()),
               token.expires_ms() == 0 ? "never" : TimeText(token.expires_ms()),
               token.last_used_ms() == 0 ? "never" : Age(WallNow(), token.last_used_ms()),
               Age(WallNow(), token.created_ms())});
  }
  session.PrintList(table, ToJsonList(tokens), "id");
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> CreateToken(const TokenFlags& flags, Session& session) {
  v1::CreateTokenRequest request;
  request.set_user(flags.user);
  request.set_name(flags.name);
  if (flags.expires != "never") {
    const absl::StatusOr<absl::Duration> lifetime = ParseDuration(flags.expires);
    if (!lifetime.ok() || *lifetime < absl::Milliseconds(1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--expires: '", flags.expires, "': write how long it is valid, as 90d or 8h, or never"));
    }
    request.set_lifetime_ms(absl::ToInt64Milliseconds(*lifetime));
  }
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  // Once: a second try would find the first one's token, whose text nobody has.
  absl::StatusOr<v1::CreateTokenResponse> made =
      client->CallOnce(&Access::CreateToken, request, session.timeout());
  if (absl::IsUnavailable(made.status()) || absl::IsDeadlineExceeded(made.status())) {
    return WithHint(made.status(), absl::StrCat("`muster token ls ", flags.user,
                                                "` tells whether it was made all the same; then "
                                                "revoke it, for its text is lost"));
  }
  MUSTER_RETURN_IF_ERROR(made.status());
  const v1::TokenInfo& info = made->info();
  session.Say(absl::StrCat(
      "token ", info.id(), " (", info.name(), ") of ", info.user(), ", ",
      info.expires_ms() == 0 ? "never expires"
                             : absl::StrCat("expires ", TimeText(info.expires_ms())),
      "; it is shown this once. They log in by: muster login ", client->endpoint().address));
  session.PrintOne(absl::StrCat(made->token(), "\n"), ToJson(*made), "token");
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> RevokeToken(const TokenFlags& flags, Session& session) {
  v1::RevokeTokenRequest request;
  request.set_id(flags.id);
  MUSTER_ASSIGN_OR_RETURN(const v1::RevokeTokenResponse revoked,
                          SendChange(session, &Access::RevokeToken, request));
  const v1::TokenInfo& info = revoked.info();
  session.PrintOne(
      absl::StrCat("token ", info.id(), " (", info.name(), ") of ", info.user(), ": revoked\n"),
      ToJson(info), "id");
  return ExitCode::kDone;
}

}  // namespace

void AddToken(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("token", "by what users show who they are")->require_subcommand(1);
  const auto flags = std::make_shared<TokenFlags>();
  const auto add = [&, flags](const char* name, const char* help, auto run) {
    CLI::App* one = command->add_subcommand(name, help);
    one->callback([flags, run, &session, &verb] {
      verb = [flags, run, &session] { return run(*flags, session); };
    });
    return one;
  };
  CLI::App* create = add("create", "a new one, which is shown once", &CreateToken);
  create->add_option("USER", flags->user, "whose")->required();
  create->add_option("--name", flags->name, "what it is called, as `laptop`")
      ->capture_default_str();
  create->add_option("--expires", flags->expires, "after how long, as 90d or 8h; or never")
      ->capture_default_str();
  CLI::App* list = add("ls", "list them: yours, or everybody's for an admin", &ListTokens);
  list->add_option("USER", flags->user, "only this user's");
  list->add_flag("--all", flags->all, "expired and revoked ones, too");
  CLI::App* revoke = add("revoke", "end one at once", &RevokeToken);
  revoke->add_option("ID", flags->id, "its number in `muster token ls`")->required();
}

}  // namespace muster::cli
