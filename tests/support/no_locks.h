// A disk without locks, as Lustre without the option `flock`: flock of this program fails as the
// test says, and otherwise is the kernel's. Include it in one source of a test.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace muster::testing {

inline std::atomic<int> flock_error = 0;  // errno; 0: flock works

class NoLocks {
 public:
  explicit NoLocks(int error = ENOLCK) { flock_error = error; }
  ~NoLocks() { flock_error = 0; }
  NoLocks(const NoLocks&) = delete;
  NoLocks& operator=(const NoLocks&) = delete;
};

}  // namespace muster::testing

// Stands before libc's in the program.
extern "C" int flock(int fd, int operation) noexcept {
  if (const int error = muster::testing::flock_error; error != 0) {
    errno = error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}
