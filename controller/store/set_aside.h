// Moves a database that is broken out of the way, so that a new one can begin in its place.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster::controller {

// So many that were set aside are kept of one database, each as large as it was.
inline constexpr size_t kMostSetAside = 3;

struct AsideDatabase {
  std::string path;
  std::vector<std::string> removed;  // older ones, beyond kMostSetAside
};

// Renames the database and its log, so that they can still be opened together: PATH becomes
// PATH.broken-20260102T030405Z. Removes the oldest that were set aside before, so that
// kMostSetAside are left. Requires that nobody has it open. UNKNOWN: it could not be renamed.
absl::StatusOr<AsideDatabase> SetAsideDatabase(const std::string& path, absl::Time now);

}  // namespace muster::controller
