// Threads for what may hang: everything on paths that users name, where a file system whose server
// is gone holds a thread for hours. A job that hangs keeps its thread; others get new ones, up to a
// bound, and the loop never waits for any.
//
// Where the system has no room for one more thread, jobs wait for those that there are: the first
// one is made at the start.
//
// What a job returns runs on the loop afterwards. A thread stays until the end, so that processes
// which it started live (their parent-death signal is bound to it). At the end threads that still
// hang are left behind: so a job holds what it uses, and nothing of an object that may be gone.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "worker/agent/mailbox.h"

namespace muster::worker {

class SideThreads {
 public:
  using Completion = std::function<void()>;
  using Job = std::function<Completion()>;
  // Beyond these, jobs wait until one that hangs comes back.
  static constexpr size_t kMaxThreads = 24;
  // What a job under way may still take at the end.
  static constexpr absl::Duration kEndPatience = absl::Seconds(3);

  explicit SideThreads(std::shared_ptr<Mailbox> mailbox, size_t most = kMaxThreads);
  // Drops what waits, and the completions of what is under way.
  ~SideThreads();
  SideThreads(const SideThreads&) = delete;
  SideThreads& operator=(const SideThreads&) = delete;

  void Enqueue(Job job);
  // True from the end on: a long job asks now and then, and gives up.
  std::shared_ptr<const std::atomic<bool>> stopping() const;
  // Those that have work, or hang.
  size_t busy() const;

 private:
  struct State;
  // One more, beside `threads`. False where there is no room for it, which is said.
  static bool AddThread(const std::shared_ptr<State>& state, size_t threads);
  static void Run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace muster::worker
