// One thread that looks now and then whether the other side of each open stream still takes part,
// and so ends those that would otherwise be held by clients which answer pings and nothing else.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace muster::controller {

// How long a stream waits for its other side.
struct StreamPatience {
  absl::Duration unread = absl::Minutes(5);   // for a message of ours to be taken
  absl::Duration hello = absl::Seconds(30);   // for the first message of an agent's Control stream
  absl::Duration silent = absl::Minutes(10);  // for the next message of who should go on
  absl::Duration idle = absl::Hours(1);       // likewise, of who may have nothing to say
};

class StreamWatch {
 public:
  class Watched {
   public:
    virtual ~Watched() = default;
    // By the watch's thread. Must not block.
    virtual void CheckDeadline() = 0;
  };

  // Often enough that a stream is ended at most half as late again as `patience` says.
  explicit StreamWatch(const StreamPatience& patience);
  ~StreamWatch();  // stops
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

  // Thread-safe. Until the stream is gone.
  void Add(std::weak_ptr<Watched> stream) MUSTER_EXCLUDES(mutex_);
  // No look is taken after it returns. Idempotent.
  void Stop() MUSTER_EXCLUDES(mutex_);

 private:
  void Run() MUSTER_EXCLUDES(mutex_);

  const absl::Duration interval_;
  Mutex mutex_;
  CondVar wake_;
  std::vector<std::weak_ptr<Watched>> added_ MUSTER_GUARDED_BY(mutex_);
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace muster::controller
