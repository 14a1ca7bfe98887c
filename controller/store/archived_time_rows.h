// What is kept of jobs that were archived: how long they held slots, and waited. Private to
// controller/store; errors as those of store/sqlite.h.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "controller/model/snapshot.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

absl::Status PutArchivedTime(SqliteDatabase& db, const std::string& project,
                             const ArchivedTime& time);

// Into snapshot.archived_time.
absl::Status LoadArchivedTime(SqliteDatabase& db, Snapshot& snapshot);

}  // namespace muster::controller
