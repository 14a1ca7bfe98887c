// `musterd restore FOLDER --data-dir DIR`: makes a data folder of a backup, for a musterd that is
// started on it afterwards. Everything is checked first: the hashes of the manifest, what SQLite
// and the model's events say. What fails leaves the folder empty again.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"

namespace muster::controller {

// In a data folder while it is being filled: musterd does not start on it.
inline constexpr char kRestoringMark[] = "restoring";

bool IsRestoreCommand(int argc, const char* const* argv);

// The text to print. INVALID_ARGUMENT: a flag or argument that does not fit, or no backup;
// FAILED_PRECONDITION: the data folder is not empty, a musterd runs on it, or a newer Muster made
// the backup; DATA_LOSS: the backup is not as it was made. Else as FileSystem.
absl::StatusOr<std::string> RunRestoreCommand(int argc, const char* const* argv, FileSystem& fs,
                                              absl::Time now);

}  // namespace muster::controller
