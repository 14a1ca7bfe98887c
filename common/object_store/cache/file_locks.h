// Locks between the processes of a machine. The kernel lets go of them when their holder dies.
//
// Who waits asks again and again, up to a bound: a holder that somebody has stopped must not hold
// everybody. Held by a descriptor, not by a process: threads of one process exclude one another
// too.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/time/time.h"
#include "common/base/unique_fd.h"

namespace muster {

enum class LockOutcome {
  kLocked,
  kHeld,         // by another, all the time
  kUnsupported,  // the disk has no locks, as some network file systems
};

// flock of the whole file.
LockOutcome LockFile(const UniqueFd& fd, absl::Duration most);

// A lock of one byte of the file, which need not have it: as many locks as there are offsets below
// 2^62, without a file each. Not asked for any longer once `given_up` (may be none) says so. False:
// held by another, or there are no locks.
bool LockByte(const UniqueFd& fd, uint64_t offset, absl::Duration most,
              const std::function<bool()>& given_up = nullptr);

}  // namespace muster
