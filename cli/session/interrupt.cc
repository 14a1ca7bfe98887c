#include "cli/session/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "cli/session/host.h"
#include "common/base/check.h"

namespace muster::cli {
namespace {

// The one thing that a signal handler can reach. -1: no guard lives.
std::atomic<int> event_fd = -1;

void OnSignal(int) {
  const int saved = errno;
  const uint64_t one = 1;
  if (const int fd = event_fd.load(); fd >= 0) {
    [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof(one));
  }
  errno = saved;
}

}  // namespace

InterruptGuard::InterruptGuard() : event_(::eventfd(0, EFD_CLOEXEC)) {
  MUSTER_CHECK(event_.valid(), "an eventfd can be made");
  MUSTER_CHECK(event_fd.exchange(event_.get()) == -1, "only one InterruptGuard lives at a time");
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  thread_ = std::thread([this] { Loop(); });
}

InterruptGuard::~InterruptGuard() {
  ::signal(SIGINT, SIG_DFL);
  event_fd.store(-1);
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof(one));
  thread_.join();
}

void InterruptGuard::Loop() {
  uint64_t count = 0;
  while (true) {
    if (::read(event_.get(), &count, sizeof(count)) < 0 && errno == EINTR) continue;
    MutexLock lock(mutex_);
    if (stopping_) return;
    interrupted_ = true;
    if (action_) std::exchange(action_, nullptr)();
    changed_.NotifyAll();
  }
}

void InterruptGuard::Set(std::function<void()> action) {
  MutexLock lock(mutex_);
  action_ = std::move(action);
  if (interrupted_ && action_) std::exchange(action_, nullptr)();
}

bool InterruptGuard::interrupted() {
  MutexLock lock(mutex_);
  return interrupted_;
}

void InterruptGuard::Reset() {
  MutexLock lock(mutex_);
  interrupted_ = false;
}

bool InterruptGuard::Pause(absl::Duration duration) {
  const absl::Duration end = SteadyNow() + duration;
  MutexLock lock(mutex_);
  while (!interrupted_) {
    const absl::Duration left = end - SteadyNow();
    if (left <= absl::ZeroDuration()) return true;
    changed_.WaitFor(mutex_, left);
  }
  return false;
}

}  // namespace muster::cli
