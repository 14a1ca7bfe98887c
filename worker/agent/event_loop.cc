#include "worker/agent/event_loop.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <vector>

#include "common/base/check.h"

namespace muster::worker {
namespace {

constexpr int kLongestPollMs = 60'000;
constexpr int kFinishPollMs = 100;

}  // namespace

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Create(Clock& clock) {
  UniqueFd wake_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_fd.valid())
    return absl::ResourceExhaustedError("no file descriptor for the event loop");
  auto mailbox = std::make_shared<Mailbox>(std::move(wake_fd));
  return std::unique_ptr<EventLoop>(new EventLoop(clock, std::move(mailbox)));
}

EventLoop::EventLoop(Clock& clock, std::shared_ptr<Mailbox> mailbox)
    : clock_(clock), mailbox_(std::move(mailbox)) {
  Watch(mailbox_->wake_fd(), POLLIN, [this](short) {
    for (const Mailbox::Task& task : mailbox_->TakeAll()) task();
  });
}

EventLoop::~EventLoop() { mailbox_->Close(); }

void EventLoop::Watch(int fd, short events, std::function<void(short)> ready) {
  const bool added =
      watchers_.emplace(fd, std::make_shared<Watcher>(Watcher{events, std::move(ready)})).second;
  MUSTER_CHECK(added, "a file descriptor is watched twice");
}

void EventLoop::SetEvents(int fd, short events) {
  const auto it = watchers_.find(fd);
  MUSTER_CHECK(it != watchers_.end(), "SetEvents on a file descriptor that is not watched");
  it->second->events = events;
}

void EventLoop::Unwatch(int fd) { watchers_.erase(fd); }

EventLoop::TimerId EventLoop::After(absl::Duration delay, std::function<void()> task) {
  const TimerId id = next_timer_++;
  const absl::Duration due = clock_.SinceBoot() + delay;
  timers_.emplace(std::pair(due, id), std::move(task));
  due_.emplace(id, due);
  return id;
}

void EventLoop::Cancel(TimerId id) {
  const auto it = due_.find(id);
  if (it == due_.end()) return;
  timers_.erase({it->second, id});
  due_.erase(it);
}

void EventLoop::Run() {
  quit_ = false;
  while (!quit_) {
    PollOnce();
    RunTimers();
  }
}

void EventLoop::FinishSenders(absl::Duration patience) {
  const absl::Duration deadline = clock_.SinceBoot() + patience;
  while (mailbox_->senders() > 0 && clock_.SinceBoot() < deadline) {
    pollfd wake = {mailbox_->wake_fd(), POLLIN, 0};
    if (::poll(&wake, 1, kFinishPollMs) <= 0) continue;
    for (const Mailbox::Task& task : mailbox_->TakeAll()) task();
  }
}

int EventLoop::PollTimeoutMs() const {
  if (timers_.empty()) return kLongestPollMs;
  const absl::Duration wait = timers_.begin()->first.first - clock_.SinceBoot();
  if (wait <= absl::ZeroDuration()) return 0;
  const int64_t whole_ms = absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1)));
  return static_cast<int>(std::min<int64_t>(whole_ms, kLongestPollMs));
}

void EventLoop::PollOnce() {
  std::vector<pollfd> fds;
  std::vector<std::shared_ptr<Watcher>> watchers;
  for (const auto& [fd, watcher] : watchers_) {
    fds.push_back({fd, watcher->events, 0});
    watchers.push_back(watcher);
  }
  const int count = ::poll(fds.data(), fds.size(), PollTimeoutMs());
  MUSTER_CHECK(count >= 0 || errno == EINTR || errno == EAGAIN || errno == ENOMEM,
               "poll refused its arguments");
  if (count <= 0) return;
  for (size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents == 0) continue;
    // An earlier call may have removed this watch, or put another in its place.
    const auto it = watchers_.find(fds[i].fd);
    if (it != watchers_.end() && it->second == watchers[i]) watchers[i]->ready(fds[i].revents);
  }
}

void EventLoop::RunTimers() {
  const absl::Duration now = clock_.SinceBoot();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    auto node = timers_.extract(timers_.begin());
    due_.erase(node.key().second);
    node.mapped()();
  }
}

}  // namespace muster::worker
