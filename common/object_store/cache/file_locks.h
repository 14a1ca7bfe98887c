// Locks between the processes of a machine. The kernel lets go of them when their holder dies.
//
// Who waits asks again and again, up to a bound: a holder that somebody has stopped must not hold
// everybody. Held by a descriptor, not by a process: threads of one process exclude one another
// too.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/base/unique_fd.h"

namespace muster {

// flock of the whole file.
bool LockFile(const UniqueFd& fd, absl::Duration most);

// A lock of one byte of the file, which need not have it: as many locks as there are offsets below
// 2^62, without a file each.
bool LockByte(const UniqueFd& fd, uint64_t offset, absl::Duration most);

}  // namespace muster
