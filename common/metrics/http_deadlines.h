// Ends connections that take too long over their request and its answer: libmicrohttpd only bounds
// the time without a byte, which a client that sends one now and then never exceeds. When very many
// are open some have less time: an answer is a matter of milliseconds, and who asks for nothing
// must not keep others waiting.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/os/eviction_order.h"

namespace muster {

class HttpDeadlines {
 public:
  struct Crowd {
    size_t beyond = 0;    // so many, for each that comes the next by EvictionOrder
    absl::Duration each;  // may last no longer than this, from when it was opened
    std::atomic<uint64_t>* displaced = nullptr;  // not null: counts those that ended so
  };

  // Each connection may last `each`, which is longer than that of a crowd.
  HttpDeadlines(absl::Duration each, const Crowd& crowd);
  ~HttpDeadlines();

  // Call OnClosing before the socket is closed: its number may then be reused.
  void OnOpened(int socket, const std::string& host);
  void OnClosing(int socket);

 private:
  struct End {
    absl::Duration at;  // since boot
    bool in_crowd = false;
  };

  void Run();

  const absl::Duration each_;
  const Crowd crowd_;
  RealClock clock_;
  Mutex mutex_;
  CondVar changed_;
  std::map<int, End> ends_ MUSTER_GUARDED_BY(mutex_);  // by socket
  EvictionOrder order_ MUSTER_GUARDED_BY(mutex_);      // of those that have their whole time
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster
