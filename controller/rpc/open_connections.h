// Which connections that were handed over to gRPC are still open. gRPC closes them without a word,
// so the table asks the kernel whether a descriptor's number is still the same socket. Not
// thread-safe; owns no descriptor.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <unordered_map>

#include "absl/time/time.h"

namespace muster::controller {

class OpenConnections {
 public:
  static constexpr absl::Duration kSweepEvery = absl::Milliseconds(100);

  // A connected socket from `host`, before it is handed over.
  void Add(int fd, const std::string& host);
  // Forgets those that were closed, at a cost of one system call for each that it knows; nothing
  // when it did so less than kSweepEvery before `now` (since boot): in a flood of connections that
  // are refused, each would cost as much as all others together.
  void Sweep(absl::Duration now);

  // As of the last sweep, with those added since.
  size_t size() const { return rows_.size(); }
  size_t FromHost(const std::string& host) const;

 private:
  struct Row {
    ino_t socket = 0;
    std::string host;
  };

  void Forget(const Row& row);

  absl::Duration swept_ = -absl::InfiniteDuration();  // since boot
  std::unordered_map<int, Row> rows_;                 // by descriptor
  std::unordered_map<std::string, size_t> by_host_;
};

}  // namespace muster::controller
