#include "controller/rpc/open_connections.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/base/unique_fd.h"

namespace muster::controller {
namespace {

// The socket's number in the kernel, which no other open one has; 0: no socket. gRPC may close the
// descriptor meanwhile, and its number may become another's: the answer is true of one moment.
ino_t SocketInodeOf(int fd) {
  struct stat info = {};
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
}

// Holds what the number means now, whoever closes it: what is then found out of it stays true.
UniqueFd Hold(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

std::string TextOf(const OpenConnections::Peer& peer) {
  // IPv4 on a socket of IPv6.
  absl::string_view host = peer.host;
  if (absl::StrContains(host, '.')) (void)absl::ConsumePrefix(&host, "::ffff:");
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", peer.port)
                                      : absl::StrCat(host, ":", peer.port);
}

// The same of what gRPC writes, which escapes brackets.
std::string TextOfGrpc(absl::string_view peer) {
  (void)(absl::ConsumePrefix(&peer, "ipv4:") || absl::ConsumePrefix(&peer, "ipv6:"));
  return absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}});
}

}  // namespace

void OpenConnections::LeaveHostLocked(const std::string& host) {
  const auto found = by_host_.find(host);
  if (--found->second == 0) by_host_.erase(found);
}

bool OpenConnections::IsClosedLocked(int fd) const {
  return SocketInodeOf(fd) != rows_.at(fd).socket;
}

void OpenConnections::ForgetLocked(int fd) {
  const auto row = rows_.find(fd);
  if (leaving_.erase(fd) == 0) LeaveHostLocked(row->second.host);
  unknown_.Remove(fd);
  const auto peer = by_peer_.find(row->second.peer);
  if (peer != by_peer_.end() && peer->second == fd) by_peer_.erase(peer);
  rows_.erase(row);
}

void OpenConnections::Add(int fd, const Peer& peer) {
  MutexLock lock(mutex_);
  // The number may be that of one that was closed since the last sweep.
  if (rows_.count(fd) != 0) ForgetLocked(fd);
  const Row row{.socket = SocketInodeOf(fd), .host = peer.host, .peer = TextOf(peer)};
  rows_[fd] = row;
  by_peer_[row.peer] = fd;
  ++by_host_[row.host];
  unknown_.Add(fd, row.host);
}

void OpenConnections::Sweep(absl::Duration now) {
  MutexLock lock(mutex_);
  std::vector<int> closed;
  if (now - swept_leaving_ >= kSweepLeavingEvery) {
    swept_leaving_ = now;
    for (const int fd : leaving_) {
      if (IsClosedLocked(fd)) closed.push_back(fd);
    }
  }
  if (now - swept_ >= kSweepEvery) {
    swept_ = now;
    closed.clear();
    for (const auto& [fd, row] : rows_) {
      if (IsClosedLocked(fd)) closed.push_back(fd);
    }
  }
  for (const int fd : closed) ForgetLocked(fd);
}

void OpenConnections::Know(absl::string_view peer) {
  const std::string text = TextOfGrpc(peer);
  MutexLock lock(mutex_);
  const auto found = by_peer_.find(text);
  if (found != by_peer_.end()) unknown_.Remove(found->second);
}

bool OpenConnections::MakeRoom(const std::string& host) {
  MutexLock lock(mutex_);
  const std::optional<int> next = host.empty() ? unknown_.Next() : unknown_.NextOf(host);
  if (!next.has_value()) return false;
  const UniqueFd held = Hold(*next);
  // Of a closed one there is nothing to hold; no descriptor is left for another.
  if (!held.valid() && errno != EBADF) return false;
  unknown_.Remove(*next);
  leaving_.insert(*next);
  LeaveHostLocked(rows_.at(*next).host);
  // One that gRPC has closed has left already, and its number may be another's.
  if (SocketInodeOf(held.get()) == rows_.at(*next).socket) (void)::shutdown(held.get(), SHUT_RDWR);
  return true;
}

size_t OpenConnections::size() const {
  MutexLock lock(mutex_);
  return rows_.size();
}

size_t OpenConnections::leaving() const {
  MutexLock lock(mutex_);
  return leaving_.size();
}

size_t OpenConnections::FromHost(const std::string& host) const {
  MutexLock lock(mutex_);
  const auto it = by_host_.find(host);
  return it == by_host_.end() ? 0 : it->second;
}

}  // namespace muster::controller
