// The agent's one thread of decisions: file descriptors, timers, and tasks that other threads left
// in the mailbox.
//
// All rules, ranks and the session live on it, so they need no locks. Ranks are forked on side
// threads (gang/rank_starts.h), and helper programs (container/tool_run.h) on the thread that calls
// Run, which must outlive them: their death signal is bound to it. Only mailbox()->Post may be
// called elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "worker/agent/base/mailbox.h"
#include "worker/agent/base/timers.h"

namespace muster::worker {

class EventLoop final : public Timers {
 public:
  // RESOURCE_EXHAUSTED: no file descriptor left. `clock` outlives the loop. What it costs to wait
  // does not grow with the number of watches (epoll).
  static absl::StatusOr<std::unique_ptr<EventLoop>> Create(Clock& clock);
  ~EventLoop() override;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Calls `ready` with poll's revents whenever `fd` shows one of `events` (or an error). One watch
  // a descriptor, which is closed after Unwatch; not for files.
  void Watch(int fd, short events, std::function<void(short)> ready);
  void SetEvents(int fd, short events);
  void Unwatch(int fd);

  TimerId After(absl::Duration delay, std::function<void()> task) override;
  void Cancel(TimerId id) override;

  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  Clock& clock() const override { return clock_; }

  // Until Quit. Quit may be called from the loop only.
  void Run();
  void Quit() { quit_ = true; }

  // After Run: runs the mailbox's tasks, and nothing else, until no sender is left or `patience` is
  // over. A gRPC stream must end here, not on gRPC's thread: dropping a channel's last owner there
  // would make that thread wait for itself.
  void FinishSenders(absl::Duration patience);

 private:
  using Watcher = std::function<void(short)>;

  EventLoop(Clock& clock, UniqueFd epoll, std::shared_ptr<Mailbox> mailbox);
  void Control(int operation, int fd, short events, uint64_t id);
  void PollOnce();
  void RunTimers();
  int PollTimeoutMs() const;

  Clock& clock_;
  const UniqueFd epoll_;
  const std::shared_ptr<Mailbox> mailbox_;
  // By number, so that what one watch does to others is seen by what is still to be called.
  std::map<uint64_t, std::shared_ptr<Watcher>> watchers_;
  std::map<int, uint64_t> watched_;  // descriptors
  uint64_t next_watcher_ = 1;
  std::map<std::pair<absl::Duration, TimerId>, std::function<void()>> timers_;
  std::map<TimerId, absl::Duration> due_;
  TimerId next_timer_ = 1;
  bool quit_ = false;
};

}  // namespace muster::worker
