// Processes of `muster local`: starting one so that it dies with the supervisor, and the lock that
// says who supervises.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace muster::cli {

// Starts argv[0] with stdin closed and its output appended to log_path. SIGKILL reaches it when the
// calling THREAD ends, so requires a process with one thread. UNAVAILABLE: the log cannot be
// opened, or no process can be made; a program that cannot be executed exits with 127 and says so
// in its log.
absl::StatusOr<pid_t> StartDaemon(const std::vector<std::string>& argv,
                                  const std::string& log_path);

// Starts argv[0] in a session of its own, detached from the terminal and from every open file of
// ours.
absl::StatusOr<pid_t> StartDetached(const std::vector<std::string>& argv,
                                    const std::string& log_path);

// Takes the supervisor's lock for the life of this process; keep the descriptor, and open the file
// nowhere else in this process (a POSIX record lock goes with the first close).
// FAILED_PRECONDITION: another process holds it.
absl::StatusOr<UniqueFd> TakeLock(const std::string& path);

// The process that holds the lock now; nothing when nobody does, or there is no such file.
std::optional<pid_t> LockHolder(const std::string& path);

// The running program itself.
absl::StatusOr<std::string> OwnPath();

}  // namespace muster::cli
