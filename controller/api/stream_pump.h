// One thread that turns what waits for the world to change: watchers of jobs, followers of logs,
// calls that wait for a verdict. Each is turned when it is added, then at most once an interval,
// and only while there are any.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace muster::controller {

class Pumped {
 public:
  virtual ~Pumped() = default;
  // Looks whether there is something to do, and does not block. False: it is over, never turn it
  // again.
  virtual bool Turn() = 0;
  // The controller is stopping: ends the call with UNAVAILABLE.
  virtual void Abort() = 0;
};

class StreamPump {
 public:
  // At most five turns a second: so is WatchJob's promise.
  static constexpr absl::Duration kInterval = absl::Milliseconds(200);

  explicit StreamPump(Clock& clock);
  ~StreamPump();  // stops

  // Thread-safe. After Stop it aborts `pumped` at once.
  void Add(std::shared_ptr<Pumped> pumped);
  // Aborts all, ends the thread. Idempotent.
  void Stop();

 private:
  void Run();

  Clock& clock_;
  Mutex mutex_;
  CondVar wake_;
  std::vector<std::shared_ptr<Pumped>> added_ MUSTER_GUARDED_BY(mutex_);
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster::controller
