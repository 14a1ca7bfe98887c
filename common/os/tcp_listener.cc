#include "common/os/tcp_listener.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/os/host_port.h"

namespace muster {
namespace {

// Without SO_REUSEPORT, with which two daemons would share a port without noticing.
UniqueFd Bind(const addrinfo& where) {
  UniqueFd fd(::socket(where.ai_family, where.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                       where.ai_protocol));
  if (!fd.valid()) return fd;
  const int yes = 1;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const bool bound = ::bind(fd.get(), where.ai_addr, where.ai_addrlen) == 0;
  if (bound && ::listen(fd.get(), SOMAXCONN) == 0) return fd;
  const int why = errno;
  fd.Reset();
  errno = why;
  return fd;
}

std::string PortOf(const sockaddr_storage& address, socklen_t size) {
  char port[NI_MAXSERV] = "";
  (void)::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, nullptr, 0, port,
                      sizeof(port), NI_NUMERICSERV);
  return port;
}

}  // namespace

absl::StatusOr<TcpListener> ListenTcp(const std::string& listen) {
  const absl::StatusOr<HostPort> where = ParseHostPort(listen);
  if (!where.ok()) return where.status();
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int looked =
      ::getaddrinfo(where->host.c_str(), absl::StrCat(where->port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  const auto refuse = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", listen, ": ", why));
  };
  if (looked != 0) return refuse("no such address");
  TcpListener listener;
  for (const addrinfo* at = found; at != nullptr && !listener.fd.valid(); at = at->ai_next) {
    listener.fd = Bind(*at);
  }
  if (!listener.fd.valid()) return refuse(::strerror(errno));
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  if (::getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return refuse(::strerror(errno));
  }
  const std::string port = PortOf(bound, size);
  const bool ipv6 = where->host.find(':') != std::string::npos;
  listener.address =
      ipv6 ? absl::StrCat("[", where->host, "]:", port) : absl::StrCat(where->host, ":", port);
  return listener;
}

}  // namespace muster
