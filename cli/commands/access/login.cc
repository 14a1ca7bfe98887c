// `muster login`: tries a token at a controller, and keeps both for later calls.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/commands/access/access_verbs.h"
#include "cli/commands/access/secret_prompt.h"
#include "cli/output/text.h"
#include "cli/session/saved_contexts.h"
#include "common/base/status_macros.h"
#include "common/rpc/token_file.h"
#include "common/tls/tls_files.h"

namespace muster::cli {
namespace {

struct LoginFlags {
  std::string address;
  std::string name;
};

absl::StatusOr<std::string> TokenOf(const ContextFlags& context, Session& session) {
  if (!context.token_file.empty()) return ReadTokenFile(context.token_file);
  MUSTER_ASSIGN_OR_RETURN(std::string token, ReadSecret(session.host(), "Token: "));
  MUSTER_RETURN_IF_ERROR(CheckTokenText(token));
  return token;
}

absl::StatusOr<ExitCode> RunLogin(const LoginFlags& flags, Session& session) {
  const ContextFlags& context = session.globals().context;
  Endpoint endpoint{
      .address = flags.address,
      .ca_file = context.ca_file.empty() ? session.host().Env("MUSTER_CA_FILE") : context.ca_file,
      .insecure = context.insecure || session.host().Env("MUSTER_INSECURE") == "1"};
  MUSTER_RETURN_IF_ERROR(CheckAddress(endpoint.address));
  const std::string name =
      flags.name.empty() ? endpoint.address.substr(0, endpoint.address.rfind(':')) : flags.name;
  if (absl::Status good = CheckContextName(name); !good.ok()) {
    return WithHint(std::move(good), "give it another one with --name");
  }
  MUSTER_RETURN_IF_ERROR(CheckTlsFiles({.ca = endpoint.ca_file}, WallNow()));
  // Before anybody types what cannot be sent.
  Endpoint would = endpoint;
  would.token = "?";
  MUSTER_RETURN_IF_ERROR(CheckMaySend(would));
  MUSTER_ASSIGN_OR_RETURN(endpoint.token, TokenOf(context, session));
  const Client client(endpoint);
  MUSTER_ASSIGN_OR_RETURN(const v1::WhoAmIResponse who,
                          client.Call(&Access::WhoAmI, v1::WhoAmIRequest(), session.timeout()));
  MUSTER_RETURN_IF_ERROR(KeepContext(session.host(), session.fs(), name, endpoint));
  Json json = ToJson(who);
  json["context"] = name;
  json["address"] = endpoint.address;
  session.PrintOne(
      absl::StrCat("logged in to ", endpoint.address, " as ", who.user(), " (",
                   GrantsText(who.grants()), ")\ncontext ", name, " is in use",
                   who.token_expires_ms() == 0
                       ? ""
                       : absl::StrCat("; the token expires ", TimeText(who.token_expires_ms())),
                   "\n"),
      json, "context");
  return ExitCode::kDone;
}

}  // namespace

void AddLogin(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("login", "try your token at a controller, and keep both for later calls");
  const auto flags = std::make_shared<LoginFlags>();
  command->add_option("ADDR", flags->address, "the controller, HOST:PORT")->required();
  command->add_option("--name", flags->name, "what the context is called (the host, unless given)");
  command->footer(
      "The token is asked for, or read from standard input or --token-file. A --ca-file is "
      "copied.");
  command->callback(
      [flags, &session, &verb] { verb = [flags, &session] { return RunLogin(*flags, session); }; });
}

}  // namespace muster::cli
