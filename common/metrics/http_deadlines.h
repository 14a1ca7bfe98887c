// Ends connections that take too long over their request and its answer: libmicrohttpd only bounds
// the time without a byte, which a client that sends one now and then never exceeds.
#pragma once

#include <map>
#include <thread>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace muster {

class HttpDeadlines {
 public:
  // Each connection may last `each`.
  explicit HttpDeadlines(absl::Duration each);
  ~HttpDeadlines();

  // Call OnClosing before the socket is closed: its number may then be reused.
  void OnOpened(int socket);
  void OnClosing(int socket);

 private:
  void Run();

  const absl::Duration each_;
  RealClock clock_;
  Mutex mutex_;
  CondVar changed_;
  std::map<int, absl::Duration> ends_ MUSTER_GUARDED_BY(mutex_);  // by socket, since boot
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster
