#include "common/object_store/cache/file_locks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>

#include "absl/time/clock.h"
#include "common/base/deadline.h"

namespace muster {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(20);

// Asks until it is given, refused for another reason than a holder, or the time is over.
template <typename Try>
LockOutcome AskUntil(absl::Duration most, Try try_once,
                     const std::function<bool()>& given_up = nullptr) {
  const Deadline deadline(most);
  for (absl::Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    if (try_once()) return LockOutcome::kLocked;
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK && errno != EACCES) return LockOutcome::kUnsupported;
    if (deadline.over() || (given_up && given_up())) return LockOutcome::kHeld;
    absl::SleepFor(std::min(pause, deadline.left()));
  }
}

}  // namespace

LockOutcome LockFile(const UniqueFd& fd, absl::Duration most) {
  return AskUntil(most, [&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0; });
}

bool LockByte(const UniqueFd& fd, uint64_t offset, absl::Duration most,
              const std::function<bool()>& given_up) {
  const auto try_once = [&] {
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(offset);
    lock.l_len = 1;
    return ::fcntl(fd.get(), F_OFD_SETLK, &lock) == 0;
  };
  return AskUntil(most, try_once, given_up) == LockOutcome::kLocked;
}

}  // namespace muster
