// Jobs that keep a side thread: one that is slow and gets on, and one that hangs.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/agent/base/path_watch.h"
#include "worker/agent/base/side_threads.h"

namespace muster::worker {

// What waits behind a slow job has this patience with what it touches: a machine that stands still
// for less says nothing.
inline constexpr absl::Duration kPatienceBehindSlow = absl::Seconds(2);

// Takes longer than that, and gets on all the time.
inline void EnqueueSlow(SideThreads& threads) {
  const auto watch = std::make_shared<PathWatch>();
  threads.Enqueue(
      [watch]() -> SideThreads::Completion {
        for (int i = 0; i < 250; ++i) {
          absl::SleepFor(absl::Milliseconds(10));
          watch->GetOn();
        }
        return nullptr;
      },
      watch);
}

// A job that hangs on a path until Release, or the end of this.
class HungJob {
 public:
  HungJob(SideThreads& threads, const std::string& path, const std::string& group = "") {
    const auto watch = std::make_shared<PathWatch>(group);
    threads.Enqueue(
        [watch, path, released = release_.get_future().share()]() -> SideThreads::Completion {
          watch->Touch(path);
          released.wait();
          return nullptr;
        },
        watch);
  }
  ~HungJob() { Release(); }
  HungJob(const HungJob&) = delete;
  HungJob& operator=(const HungJob&) = delete;

  void Release() {
    if (!std::exchange(released_, true)) release_.set_value();
  }

 private:
  bool released_ = false;
  std::promise<void> release_;
};

}  // namespace muster::worker
