#include "worker/agent/gang/port_holder.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

// Every address of one family; both families at once for IPv6.
absl::StatusOr<HeldPort> Hold(int family) {
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  const int no = 0;
  sockaddr_storage address = {};
  address.ss_family = static_cast<sa_family_t>(family);
  socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const bool held = socket.valid() &&
                    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                    (family != AF_INET6 ||
                     ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0) &&
                    ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                    ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (!held) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no free port for the gang: ", ::strerror(errno)));
  }
  const uint16_t port = family == AF_INET6
                            ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                            : reinterpret_cast<const sockaddr_in*>(&address)->sin_port;
  return HeldPort{std::move(socket), ntohs(port)};
}

}  // namespace

absl::StatusOr<HeldPort> HoldPort() {
  absl::StatusOr<HeldPort> held = Hold(AF_INET6);
  return held.ok() ? std::move(held) : Hold(AF_INET);
}

}  // namespace muster::worker
