// The table of checkpoint roots. Private to controller/store; errors as those of store/sqlite.h.
#pragma once

#include "absl/status/status.h"
#include "controller/model/snapshot.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

absl::Status PutRoot(SqliteDatabase& db, const RootIdentity& root);

// Into snapshot.roots.
absl::Status LoadRoots(SqliteDatabase& db, Snapshot& snapshot);

}  // namespace muster::controller
