#include "common/call/dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/peer_limits.h"
#include "common/base/status_macros.h"
#include "common/call/wait.h"

namespace muster {
namespace {

struct HostPort {
  std::string host;
  std::string port;
};

absl::StatusOr<HostPort> Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' is not HOST:PORT"));
  }
  HostPort parts{address.substr(0, colon), address.substr(colon + 1)};
  if (parts.host.front() == '[' && parts.host.back() == ']') {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  }
  return parts;
}

// A look-up under way; shared by who waits for it and the thread that does it.
struct LookUp {
  HostPort of;
  UniqueFd done{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<int> error = 0;  // set after `found`: who reads it sees that, too
  addrinfo* found = nullptr;

  void Run(int flags) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags;
    error = ::getaddrinfo(of.host.c_str(), of.port.c_str(), &hints, &found);
  }
  ~LookUp() {
    if (found != nullptr) ::freeaddrinfo(found);
  }
};

absl::StatusOr<std::shared_ptr<LookUp>> Resolve(HostPort of, const UniqueFd& wake,
                                                absl::Duration deadline) {
  auto look_up = std::make_shared<LookUp>();
  look_up->of = std::move(of);
  look_up->Run(AI_NUMERICHOST | AI_NUMERICSERV);
  if (look_up->error == 0) return look_up;
  std::thread([look_up] {
    look_up->Run(AI_NUMERICSERV);
    ::eventfd_write(look_up->done.get(), 1);
  }).detach();
  MUSTER_RETURN_IF_ERROR(AwaitReady(look_up->done, POLLIN, wake, deadline).status());
  if (look_up->error == 0) return look_up;
  return absl::UnavailableError(
      absl::StrCat(look_up->of.host, ": ", ::gai_strerror(look_up->error)));
}

absl::StatusOr<UniqueFd> Connect(const addrinfo& to, const UniqueFd& wake,
                                 absl::Duration deadline) {
  UniqueFd socket(
      ::socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to.ai_protocol));
  if (!socket.valid()) return absl::UnavailableError(absl::StrCat("socket: ", ::strerror(errno)));
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (::connect(socket.get(), to.ai_addr, to.ai_addrlen) == 0) return socket;
  int error = errno;
  if (error == EINPROGRESS) {
    const absl::Duration end = std::min(deadline, RealClock().SinceBoot() + kConnectTimeout);
    const auto ready = AwaitReady(socket, POLLOUT, wake, end);
    if (absl::IsDeadlineExceeded(ready.status()) && end < deadline) {
      return absl::UnavailableError("no answer to the attempt to connect");
    }
    MUSTER_RETURN_IF_ERROR(ready.status());
    socklen_t size = sizeof(error);
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0) return socket;
  return absl::UnavailableError(::strerror(error));
}

}  // namespace

absl::StatusOr<UniqueFd> Dial(const std::string& address, const UniqueFd& wake,
                              absl::Duration deadline) {
  MUSTER_ASSIGN_OR_RETURN(HostPort parts, Split(address));
  MUSTER_ASSIGN_OR_RETURN(const auto found, Resolve(std::move(parts), wake, deadline));
  absl::Status last = absl::UnavailableError("no address");
  for (const addrinfo* to = found->found; to != nullptr; to = to->ai_next) {
    absl::StatusOr<UniqueFd> socket = Connect(*to, wake, deadline);
    if (socket.ok() || !absl::IsUnavailable(socket.status())) return socket;
    last = socket.status();
  }
  return absl::UnavailableError(absl::StrCat("cannot connect to ", address, ": ", last.message()));
}

}  // namespace muster
