// Which connections that were handed over to gRPC are still open, and which of them have to make
// room. gRPC closes them without a word, so the table asks the kernel whether a descriptor's number
// is still the same socket. Thread-safe; owns no descriptor.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/os/eviction_order.h"

namespace muster::controller {

class OpenConnections {
 public:
  static constexpr absl::Duration kSweepEvery = absl::Milliseconds(100);
  static constexpr absl::Duration kSweepLeavingEvery = absl::Milliseconds(10);

  // Who is at the other end.
  struct Peer {
    std::string host;
    std::string port;
  };

  // A connected socket, before it is handed over.
  void Add(int fd, const Peer& peer);
  // Forgets those that were closed, at a cost of one system call for each that it knows; nothing
  // when it did so less than kSweepEvery before `now` (since boot), kSweepLeavingEvery for those
  // that leave: in a flood each that comes would cost as much as all others together.
  void Sweep(absl::Duration now);

  // Over the connection from `peer`, as gRPC writes it ("ipv4:10.0.0.1:40312"), came a call of
  // somebody who may call: it makes room for nobody from now on.
  void Know(absl::string_view peer);
  // Ends the oldest connection of those that no such call came over, of `host` or, when that is
  // empty, of the address that has most of them. False: there is none. gRPC closes it soon; until
  // then it counts as leaving.
  bool MakeRoom(const std::string& host);

  // As of the last sweep, with those added since.
  size_t size() const;
  size_t leaving() const;
  size_t FromHost(const std::string& host) const;  // without those that leave

 private:
  struct Row {
    ino_t socket = 0;
    std::string host;
    std::string peer;
  };

  bool IsClosedLocked(int fd) const MUSTER_REQUIRES(mutex_);
  void ForgetLocked(int fd) MUSTER_REQUIRES(mutex_);
  void LeaveHostLocked(const std::string& host) MUSTER_REQUIRES(mutex_);

  mutable Mutex mutex_;
  // Since boot.
  absl::Duration swept_ MUSTER_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  absl::Duration swept_leaving_ MUSTER_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  std::unordered_map<int, Row> rows_ MUSTER_GUARDED_BY(mutex_);  // by descriptor
  std::unordered_map<std::string, int> by_peer_ MUSTER_GUARDED_BY(mutex_);
  std::unordered_map<std::string, size_t> by_host_ MUSTER_GUARDED_BY(mutex_);
  std::unordered_set<int> leaving_ MUSTER_GUARDED_BY(mutex_);
  EvictionOrder unknown_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
