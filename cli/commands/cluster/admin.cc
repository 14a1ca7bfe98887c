// `muster admin`: what who runs a controller asks of it.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/commands/commands.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

constexpr absl::Duration kBackupTimeout = absl::Minutes(10);

std::string LineOf(const v1::BackupInfo& backup) {
  const absl::Time at = absl::FromUnixMillis(backup.finished_ms());
  return absl::StrCat(backup.folder(), "  ", HumanBytes(static_cast<double>(backup.bytes())),
                      ", made ", absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", at, absl::UTCTimeZone()),
                      " in ", HumanDuration(absl::Seconds(backup.took_seconds())), ", term ",
                      backup.term(), "\n");
}

absl::StatusOr<ExitCode> MakeBackup(Session& session) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  const absl::Duration timeout = session.timeout(kBackupTimeout);
  MUSTER_ASSIGN_OR_RETURN(const v1::BackupResponse response,
                          client->CallOnce(&Admin::Backup, v1::BackupRequest(), timeout));
  session.PrintOne(LineOf(response.backup()), ToJson(response.backup()), "folder");
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> ShowStatus(Session& session) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  MUSTER_ASSIGN_OR_RETURN(
      const v1::GetAdminStatusResponse status,
      client->Call(&Admin::GetAdminStatus, v1::GetAdminStatusRequest(), session.timeout()));
  std::string page;
  if (status.backup_dir().empty()) {
    page = "backups: none are made (musterd --backup-dir)\n";
  } else if (status.has_last_backup()) {
    page = absl::StrCat("newest backup: ", LineOf(status.last_backup()));
  } else {
    page = absl::StrCat("backups: none yet in ", status.backup_dir(), "\n");
  }
  if (!status.last_error().empty()) {
    absl::StrAppend(&page, "the last one failed: ", status.last_error(), "\n");
  }
  absl::StrAppend(&page, status.held().empty() ? "held: no\n" : "held: " + status.held());
  session.PrintOne(page, ToJson(status), "backup_dir");
  return ExitCode::kDone;
}

}  // namespace

void AddAdmin(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("admin",
                         "backups of the controller, and whether it is held after one was restored")
          ->require_subcommand(1);
  command->add_subcommand("backup", "make a backup now, in musterd's --backup-dir")
      ->callback([&session, &verb] { verb = [&session] { return MakeBackup(session); }; });
  command->add_subcommand("status", "the newest backup, and what a restored controller waits for")
      ->callback([&session, &verb] { verb = [&session] { return ShowStatus(session); }; });
}

}  // namespace muster::cli
