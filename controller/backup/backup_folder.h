// What a backup is on disk: a folder `muster-TIME-TERM` with copies of the databases and of the
// files that a controller cannot do without, and a manifest.json that has the size and the SHA-256
// of each. It has the token and the CA's key in it: folders are made 0700, files 0600.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"

namespace muster::controller {

// The databases, by their names in a data folder and in a backup.
inline constexpr const char* kDatabases[] = {"state.db", "history.db", "metrics.db", "access.db",
                                             "enrollment.db"};

struct BackedUpFile {
  std::string name;  // below the folder: "state.db", "tls/ca.key"
  uint64_t bytes = 0;
  std::string sha256;
};

struct BackupManifest {
  std::string version;  // of the musterd that made it
  uint64_t term = 0;
  absl::Time finished;
  absl::Duration took;
  std::vector<BackedUpFile> files;

  uint64_t bytes() const;
};

// The names of its folder: later backups have greater ones.
std::string BackupName(absl::Time at, uint64_t term);
bool IsBackupName(absl::string_view name);
// Of a folder that is being made or removed. Nobody goes on with one that was left behind.
inline constexpr char kPartialPrefix[] = ".partial-";

absl::Status WriteManifest(FileSystem& fs, const std::string& folder,
                           const BackupManifest& manifest);
// NOT_FOUND, INVALID_ARGUMENT: it is no backup, or not one that this program can read; the message
// says why.
absl::StatusOr<BackupManifest> ReadManifest(FileSystem& fs, const std::string& folder);

// Reads the file to its end. `name` is what it is called in the manifest.
absl::StatusOr<BackedUpFile> HashFile(FileSystem& fs, const std::string& path,
                                      const std::string& name);
// Copies a file to a new one, mode 0600, durable but for its folder.
absl::StatusOr<BackedUpFile> CopyFile(FileSystem& fs, const std::string& from,
                                      const std::string& to, const std::string& name);

}  // namespace muster::controller
