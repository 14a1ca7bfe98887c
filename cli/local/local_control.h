// What `muster local up`, `status` and `down` do with the supervisor of one folder. One thread.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/local/local_state.h"
#include "cli/local/local_supervisor.h"
#include "common/fs/file_system.h"

namespace muster::cli {

struct LocalStatus {
  bool running = false;
  LocalRecord record;  // of the running supervisor; only `dir` otherwise
};

using Say = std::function<void(absl::string_view line)>;
// Whether so many workers are ready at the controller; an error ends `up`, except UNAVAILABLE,
// which means not yet.
using WorkersReady = std::function<absl::StatusOr<bool>(const LocalRecord& record)>;

// Whether a supervisor lives is decided by its lock, never by a pid in a file, so a crashed one is
// seen as what it is.
LocalStatus ReadLocalStatus(const LocalPaths& paths, FileSystem& fs);

// FAILED_PRECONDITION naming what is missing (a binary, a free port) before anything is started.
absl::Status CheckLocalStart(const SupervisorOptions& options);

// Starts a supervisor that outlives this process, and waits until `ready`. Whatever goes wrong,
// nothing is left running: FAILED_PRECONDITION or UNAVAILABLE with the end of the log of the daemon
// that failed, DEADLINE_EXCEEDED after `timeout`.
absl::StatusOr<LocalRecord> StartLocal(const SupervisorOptions& options, FileSystem& fs,
                                       absl::Duration timeout, const WorkersReady& ready);

// Stops the supervisor and all that it runs, and waits until it is gone. NOT_FOUND when none runs.
// DEADLINE_EXCEEDED: it did not end within `timeout`, and was killed, which takes its daemons
// along.
absl::Status StopLocal(const LocalPaths& paths, absl::Duration timeout);

}  // namespace muster::cli
