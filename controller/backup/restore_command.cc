#include "controller/backup/restore_command.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/daemon/data_dir_lock.h"
#include "controller/backup/backup_folder.h"
#include "controller/store/backup/restored_state.h"

namespace muster::controller {
namespace {

constexpr char kRestore[] = "restore";
constexpr char kLock[] = "lock";

// What may be in a data folder that counts as empty.
bool IsOfNobody(const std::string& name) { return name == kLock || name == "lost+found"; }

class Restore {
 public:
  Restore(FileSystem& fs, std::string folder, std::string data_dir)
      : fs_(fs), folder_(std::move(folder)), data_dir_(std::move(data_dir)) {}

  absl::StatusOr<std::string> Run(absl::Time now) {
    MUSTER_ASSIGN_OR_RETURN(const BackupManifest manifest, ReadManifest(fs_, folder_));
    MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(data_dir_));
    MUSTER_ASSIGN_OR_RETURN(const DataDirLock lock, DataDirLock::Take(data_dir_, "musterd"));
    MUSTER_RETURN_IF_ERROR(TakeEmptyFolder());
    absl::StatusOr<RestoredState> state = Fill(manifest, now);
    if (!state.ok()) {
      Clear().IgnoreError();  // else the mark stays, and the next restore clears it
      return state.status();
    }
    MUSTER_RETURN_IF_ERROR(fs_.RemoveFile(Path(kRestoringMark)));
    MUSTER_RETURN_IF_ERROR(fs_.SyncDirectory(data_dir_));
    return absl::StrCat(
        "Restored ", data_dir_, " from ", folder_, ": of term ", manifest.term, ", made ",
        absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", manifest.finished, absl::UTCTimeZone()), ", ",
        HumanBytes(static_cast<double>(manifest.bytes())), ", ", state->jobs, " jobs of which ",
        state->active_jobs, " had not ended.\n",
        "Start musterd on it. It places nothing before it knows what its workers have done since; "
        "`muster admin status` says what it waits for.\n");
  }

 private:
  std::string Path(const std::string& name) const { return absl::StrCat(data_dir_, "/", name); }

  absl::Status TakeEmptyFolder() {
    MUSTER_ASSIGN_OR_RETURN(const bool was_begun, fs_.Exists(Path(kRestoringMark)));
    // It was empty when a restore began that did not get to its end.
    if (was_begun) MUSTER_RETURN_IF_ERROR(Clear());
    MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> entries, fs_.List(data_dir_));
    for (const FileInfo& entry : entries) {
      if (IsOfNobody(entry.name)) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(data_dir_, ": is not empty (", entry.name,
                       "): nothing is written over; restore into a new folder, or move this one "
                       "away first"));
    }
    MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs_, Path(kRestoringMark), "", 0600));
    return absl::OkStatus();
  }

  // The mark goes last.
  absl::Status Clear() {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> entries, fs_.List(data_dir_));
    for (const FileInfo& entry : entries) {
      if (IsOfNobody(entry.name) || entry.name == kRestoringMark) continue;
      MUSTER_RETURN_IF_ERROR(fs_.RemoveTree(Path(entry.name)));
    }
    return fs_.RemoveFile(Path(kRestoringMark));
  }

  absl::StatusOr<RestoredState> Fill(const BackupManifest& manifest, absl::Time now) {
    for (const BackedUpFile& file : manifest.files) {
      const std::string from = absl::StrCat(folder_, "/", file.name);
      const std::string to = Path(file.name);
      MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(ParentFolder(to)));
      absl::StatusOr<BackedUpFile> copied = CopyFile(fs_, from, to, file.name);
      if (absl::IsNotFound(copied.status())) {
        return absl::DataLossError(
            absl::StrCat(from, ": is missing: the backup is not whole; take another one"));
      }
      MUSTER_RETURN_IF_ERROR(copied.status());
      if (copied->bytes != file.bytes || copied->sha256 != file.sha256) {
        return absl::DataLossError(absl::StrCat(from, ": is not as it was backed up (",
                                                copied->bytes, " bytes of SHA-256 ", copied->sha256,
                                                ", the manifest has ", file.bytes, " of ",
                                                file.sha256, "): take another backup"));
      }
      MUSTER_RETURN_IF_ERROR(fs_.SyncDirectory(ParentFolder(to)));
    }
    for (const char* database : kDatabases) MUSTER_RETURN_IF_ERROR(CheckCopy(Path(database)));
    return PrepareRestored(data_dir_, now);
  }

  FileSystem& fs_;
  const std::string folder_;
  const std::string data_dir_;
};

absl::StatusOr<std::string> WholePath(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.message()));
  std::string text = absolute.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

}  // namespace

bool IsRestoreCommand(int argc, const char* const* argv) {
  return argc > 1 && absl::string_view(argv[1]) == kRestore;
}

absl::StatusOr<std::string> RunRestoreCommand(int argc, const char* const* argv, FileSystem& fs,
                                              absl::Time now) {
  std::string folder;
  std::string data_dir;
  CLI::App app{"Makes a controller's data folder of a backup.", "musterd"};
  app.require_subcommand(1);
  CLI::App* restore = app.add_subcommand(kRestore, "Make a data folder of a backup");
  restore->add_option("FOLDER", folder, "The backup: a folder muster-TIME-TERM")->required();
  restore->add_option("--data-dir", data_dir, "Folder of the controller; empty, or not there yet")
      ->type_name("DIR")
      ->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return (*restore ? restore : &app)->help("musterd");
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(error.what());
  }
  MUSTER_ASSIGN_OR_RETURN(std::string from, WholePath(folder));
  MUSTER_ASSIGN_OR_RETURN(std::string to, WholePath(data_dir));
  return Restore(fs, std::move(from), std::move(to)).Run(now);
}

}  // namespace muster::controller
