#include "controller/rpc/open_connections.h"

#include <sys/stat.h>

namespace muster::controller {
namespace {

// The socket's number in the kernel, which no other open one has; 0: no socket.
ino_t SocketOf(int fd) {
  struct stat info = {};
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
}

}  // namespace

void OpenConnections::Forget(const Row& row) {
  const auto host = by_host_.find(row.host);
  if (--host->second == 0) by_host_.erase(host);
}

void OpenConnections::Add(int fd, const std::string& host) {
  // The number may be that of one that was closed since the last sweep.
  if (const auto before = rows_.find(fd); before != rows_.end()) Forget(before->second);
  rows_[fd] = {.socket = SocketOf(fd), .host = host};
  ++by_host_[host];
}

void OpenConnections::Sweep(absl::Duration now) {
  if (now - swept_ < kSweepEvery) return;
  swept_ = now;
  for (auto it = rows_.begin(); it != rows_.end();) {
    if (SocketOf(it->first) == it->second.socket) {
      ++it;
      continue;
    }
    Forget(it->second);
    it = rows_.erase(it);
  }
}

size_t OpenConnections::FromHost(const std::string& host) const {
  const auto it = by_host_.find(host);
  return it == by_host_.end() ? 0 : it->second;
}

}  // namespace muster::controller
