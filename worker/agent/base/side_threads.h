// Threads for what may hang: everything on paths that users name, where a file system whose server
// is gone holds a thread for hours. A job that hangs keeps its thread; others get new ones, up to a
// bound, and the loop never waits for any. Of jobs that may hang together (PathWatch::group) only
// some run at a time, so that they leave threads to others.
//
// Where the system has no room for one more thread, jobs wait for those that there are: the first
// one is made at the start. A job that waits for a thread does not hang, however long those before
// it take; it is taken back only where all of them hang.
//
// What a job returns runs on the loop afterwards. A thread stays until the end, so that processes
// which it started live (their parent-death signal is bound to it). At the end threads that still
// hang are left behind: so a job holds what it uses, and nothing of an object that may be gone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/agent/base/mailbox.h"
#include "worker/agent/base/path_watch.h"
#include "worker/agent/base/timers.h"

namespace muster::worker {

class SideThreads {
 public:
  using Completion = std::function<void()>;
  using Job = std::function<Completion()>;
  using JobId = uint64_t;
  // Beyond these, jobs wait until one comes back.
  static constexpr size_t kMaxThreads = 24;
  // What a job under way may still take at the end.
  static constexpr absl::Duration kEndPatience = absl::Seconds(3);

  // `most_of_group`: jobs of one group that run at a time.
  explicit SideThreads(std::shared_ptr<Mailbox> mailbox, size_t most = kMaxThreads,
                       size_t most_of_group = kMaxThreads);
  // Drops what waits, and the completions of what is under way.
  ~SideThreads();
  SideThreads(const SideThreads&) = delete;
  SideThreads& operator=(const SideThreads&) = delete;

  // `watch` is the job's own, and counts from when a thread takes the job up; null: one that hears
  // of nothing else. `on_begin` runs on the loop then, before what the job returns.
  JobId Enqueue(Job job, std::shared_ptr<PathWatch> watch = nullptr,
                std::function<void()> on_begin = nullptr);
  // Drops a job that waits for a thread while each thread's job, or as many of its own group as may
  // run, are on one thing for longer than `patience`: DEADLINE_EXCEEDED, naming one such thing.
  // RESOURCE_EXHAUSTED: there is no thread. OK: it has begun, or goes on waiting.
  absl::Status TakeBackIfStuck(JobId id, absl::Duration patience);
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

// Why a job is given up. Unless it `began`, it never will.
using OnStall = std::function<void(const absl::Status& stall, bool began)>;

// Enqueues a job that shares `watch`. Calls `on_stall` on the loop, once at most: when the job has
// begun and is on one thing for longer than `patience`, or when it waits for so long and all
// threads hang. `timers` and `threads` outlive the calls.
void EnqueueWatched(Timers& timers, SideThreads& threads, SideThreads::Job job,
                    std::shared_ptr<PathWatch> watch, absl::Duration patience, OnStall on_stall);

}  // namespace muster::worker
