// Ends connections that take too long over their request and its answer: libmicrohttpd only bounds
// the time without a byte, which a client that sends one now and then never exceeds. When very many
// are open they end before that: an answer is a matter of milliseconds, and who asks for nothing
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
  // Each connection may last `each`; beyond `crowd` of them the one that is next by EvictionOrder
  // ends at once, and is counted in `displaced`, if that is not null.
  HttpDeadlines(absl::Duration each, size_t crowd, std::atomic<uint64_t>* displaced);
  ~HttpDeadlines();

  // Call OnClosing before the socket is closed: its number may then be reused.
  void OnOpened(int socket, const std::string& host);
  void OnClosing(int socket);

 private:
  void Run();

  const absl::Duration each_;
  const size_t crowd_;
  std::atomic<uint64_t>* const displaced_;
  RealClock clock_;
  Mutex mutex_;
  CondVar changed_;
  std::map<int, absl::Duration> ends_ MUSTER_GUARDED_BY(mutex_);  // by socket, since boot
  EvictionOrder order_ MUSTER_GUARDED_BY(mutex_);                 // of the same
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster
