#include "common/call/wait.h"

#include <errno.h>
#include <string.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace muster {
namespace {

// For poll(): rounded up, so that no wait ends before its deadline; a long one is taken in parts.
int WaitMilliseconds(absl::Duration left) {
  constexpr int64_t kLongest = 3'600'000;
  const int64_t whole = absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)));
  return static_cast<int>(std::clamp<int64_t>(whole, 0, kLongest));
}

}  // namespace

absl::StatusOr<short> AwaitReady(const UniqueFd& fd, short events, const UniqueFd& wake,
                                 absl::Duration deadline) {
  RealClock clock;
  while (true) {
    pollfd polled[] = {{fd.get(), events, 0}, {wake.get(), POLLIN, 0}};
    const absl::Duration left = deadline - clock.SinceBoot();
    const int ready = ::poll(polled, std::size(polled), WaitMilliseconds(left));
    if (ready < 0 && errno != EINTR) {
      return absl::InternalError(absl::StrCat("poll: ", ::strerror(errno)));
    }
    if (ready > 0) {
      if (polled[1].revents != 0) return absl::CancelledError("cancelled");
      return polled[0].revents;
    }
    if (clock.SinceBoot() >= deadline) return absl::DeadlineExceededError("no answer in time");
  }
}

}  // namespace muster
