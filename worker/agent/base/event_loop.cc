#include "worker/agent/base/event_loop.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "common/base/check.h"

namespace muster::worker {
namespace {

constexpr int kLongestPollMs = 60'000;
constexpr int kFinishPollMs = 100;
constexpr int kMostEvents = 64;  // of one look

}  // namespace

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Create(Clock& clock) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  UniqueFd wake_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.valid() || !wake_fd.valid())
    return absl::ResourceExhaustedError("no file descriptor for the event loop");
  auto mailbox = std::make_shared<Mailbox>(std::move(wake_fd));
  return std::unique_ptr<EventLoop>(new EventLoop(clock, std::move(epoll), std::move(mailbox)));
}

EventLoop::EventLoop(Clock& clock, UniqueFd epoll, std::shared_ptr<Mailbox> mailbox)
    : clock_(clock), epoll_(std::move(epoll)), mailbox_(std::move(mailbox)) {
  Watch(mailbox_->wake_fd(), POLLIN, [this](short) {
    for (const Mailbox::Task& task : mailbox_->TakeAll()) task();
  });
}

EventLoop::~EventLoop() { mailbox_->Close(); }

void EventLoop::Control(int operation, int fd, short events, uint64_t id) {
  // poll's events are epoll's.
  epoll_event event = {};
  event.events = static_cast<uint16_t>(events);
  event.data.u64 = id;
  MUSTER_CHECK(::epoll_ctl(epoll_.get(), operation, fd, &event) == 0,
               "a file descriptor cannot be watched");
}

void EventLoop::Watch(int fd, short events, std::function<void(short)> ready) {
  const uint64_t id = next_watcher_++;
  MUSTER_CHECK(watched_.emplace(fd, id).second, "a file descriptor is watched twice");
  watchers_.emplace(id, std::make_shared<Watcher>(std::move(ready)));
  Control(EPOLL_CTL_ADD, fd, events, id);
}

void EventLoop::SetEvents(int fd, short events) {
  const auto it = watched_.find(fd);
  MUSTER_CHECK(it != watched_.end(), "SetEvents on a file descriptor that is not watched");
  Control(EPOLL_CTL_MOD, fd, events, it->second);
}

void EventLoop::Unwatch(int fd) {
  const auto it = watched_.find(fd);
  if (it == watched_.end()) return;
  Control(EPOLL_CTL_DEL, fd, 0, it->second);
  watchers_.erase(it->second);
  watched_.erase(it);
}

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
  epoll_event events[kMostEvents];
  const int count = ::epoll_wait(epoll_.get(), events, kMostEvents, PollTimeoutMs());
  MUSTER_CHECK(count >= 0 || errno == EINTR, "epoll refused its arguments");
  for (int i = 0; i < count; ++i) {
    // An earlier call may have removed this watch.
    const auto it = watchers_.find(events[i].data.u64);
    if (it == watchers_.end()) continue;
    const std::shared_ptr<Watcher> watcher = it->second;
    (*watcher)(static_cast<short>(events[i].events));
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
