#include "worker/train/memory/run_in_fork.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>

#include "common/base/deadline.h"
#include "common/base/unique_fd.h"

namespace muster::worker {
namespace {

// Never returns: nothing of this process, its buffered output least of all, may happen twice.
[[noreturn]] void Answer(const std::function<int64_t()>& work, int pipe) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // One byte of a huge page would take all of it, and more than the other has room for.
  ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  std::set_terminate([] { ::_exit(1); });
  const int64_t answer = work();
  const bool told = ::write(pipe, &answer, sizeof answer) == sizeof answer;
  ::_exit(told ? 0 : 1);
}

// Absent when the other end was closed without a word, or is silent for too long.
std::optional<int64_t> Hear(int pipe, absl::Duration limit) {
  pollfd waiting = {pipe, POLLIN, 0};
  const Deadline deadline(limit);
  int ready = -1;
  do {
    ready = ::poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(deadline.left())));
  } while (ready < 0 && errno == EINTR && !deadline.over());
  int64_t answer = 0;
  if (ready <= 0 || ::read(pipe, &answer, sizeof answer) != sizeof answer) return std::nullopt;
  return answer;
}

}  // namespace

std::optional<int64_t> RunInFork(const std::function<int64_t()>& work, absl::Duration limit) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t copy = ::fork();
  if (copy == 0) Answer(work, write_end.get());
  if (copy < 0) return std::nullopt;
  write_end.Reset();
  const std::optional<int64_t> answer = Hear(read_end.get(), limit);
  ::kill(copy, SIGKILL);
  while (::waitpid(copy, nullptr, 0) < 0 && errno == EINTR) {
  }
  return answer;
}

}  // namespace muster::worker
