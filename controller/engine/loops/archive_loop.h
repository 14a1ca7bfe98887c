// Moves jobs that have ended to history.db (policy/archive): puts them there, durably, and then
// proposes that they leave the model. Looks every second. Also removes from history.db what is to
// be forgotten.
#pragma once

#include "controller/engine/loops/version_loop.h"
#include "controller/policy/archive/archivable_jobs.h"
#include "controller/store/history/history_store.h"

namespace muster::controller {

// The rows of a job that is in the snapshot, as history.db is to have them.
ArchivedJob RowsToArchive(const Snapshot& snapshot, uint64_t id);

// For one VersionLoop: it follows the versions that it is shown. `start`: when the controller
// began, since boot. `history` outlives it.
VersionLoop::Decide DecideArchiving(const ArchiveSettings& settings, absl::Duration start,
                                    HistoryStore& history);

}  // namespace muster::controller
