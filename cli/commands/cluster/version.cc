// `muster version`: this program's and the controller's.
#include "common/base/version.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "common/base/code_version.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

absl::StatusOr<ExitCode> RunVersion(Session& session) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  const auto answer = client->Call(&Jobs::GetVersion, v1::GetVersionRequest(), session.timeout());
  Json json = {
      {"client",
       {{"version", Version()}, {"protocol_version", kProtocolVersion}, {"commit", Commit()}}},
      {"controller", nullptr}};
  std::string page = absl::StrCat(VersionLine("muster"), "\n");
  if (answer.ok()) {
    json["controller"] = ToJson(*answer);
    json["controller"]["address"] = client->endpoint().address;
    absl::StrAppend(&page, "musterd ", answer->version(), " (protocol ", answer->protocol_version(),
                    ") at ", client->endpoint().address, ", term ", answer->term(), "\n");
  }
  session.PrintOne(page, json, "client");
  if (!answer.ok()) return answer.status();
  return ExitCode::kDone;
}

}  // namespace

void AddVersion(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("version", "versions of this program and of the controller");
  command->callback([&session, &verb] { verb = [&session] { return RunVersion(session); }; });
}

}  // namespace muster::cli
