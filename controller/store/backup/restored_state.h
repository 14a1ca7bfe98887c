// The databases of a backup that was just put back: whether they are whole, and what a controller
// that goes on from them must not repeat.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster::controller {

// Has SQLite look through all of the file; changes nothing. DATA_LOSS: it is no database, or
// corrupt, with the first fault.
absl::Status CheckCopy(const std::string& path);

struct RestoredState {
  size_t jobs = 0;         // that had not been archived
  size_t active_jobs = 0;  // of them, those that had not ended
  uint64_t term = 0;       // the next start has a higher one
};
// Opens state.db, history.db and metrics.db in the folder, brings them to this program's schema,
// holds the model against its events, and has the numbers of jobs, checkpoints, events, assignments
// and terms go on well above those of the backup: whoever had them after it meets no second owner.
// `now`: the wall clock. FAILED_PRECONDITION: a newer Muster wrote one; DATA_LOSS: one contradicts
// itself.
absl::StatusOr<RestoredState> PrepareRestored(const std::string& folder, absl::Time now);

}  // namespace muster::controller
