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
  // When more than `size` connections are open, each that comes shortens the deadline of another
  // one, which EvictionOrder names, to `timeout` from its opening.
  struct Crowd {
    size_t size = 0;
    absl::Duration timeout;
    std::atomic<uint64_t>* displaced = nullptr;  // not null: counts those that ended so
  };

  // `timeout` of other connections is longer than that of a crowd.
  HttpDeadlines(absl::Duration timeout, const Crowd& crowd);
  ~HttpDeadlines();

  // Call OnClosing before the socket is closed: its number may then be reused.
  void OnOpened(int socket, const std::string& host);
  void OnClosing(int socket);

 private:
  struct End {
    absl::Duration at;  // since boot
    bool is_shortened = false;
  };

  void Run();

  const absl::Duration timeout_;
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
