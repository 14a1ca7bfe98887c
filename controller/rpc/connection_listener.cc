#include "controller/rpc/connection_listener.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"

namespace muster::controller {
namespace {

// How long nothing is taken when the process or the machine has no descriptor left, and when
// connections that were told to go have not gone yet.
constexpr absl::Duration kShortagePause = absl::Milliseconds(100);
constexpr absl::Duration kLeavingPause = OpenConnections::kSweepLeavingEvery;
constexpr absl::Duration kComplainEvery = absl::Minutes(1);
// Fewer are not swept before a bound is reached.
constexpr size_t kSweepFrom = 64;

// What ends one connection, not the listener.
bool IsOfThePeer(int error) {
  switch (error) {
    case ECONNABORTED:
    case EINTR:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case ETIMEDOUT:
    case EPERM:
      return true;
    default:
      return false;
  }
}

bool IsShortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

OpenConnections::Peer PeerOf(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "";
  (void)::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port,
                      sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return {host, port};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionListener>> ConnectionListener::Listen(
    const char* name, const std::string& listen, ConnectionBounds bounds,
    std::shared_ptr<OpenConnections> open) {
  absl::StatusOr<TcpListener> listener = ListenTcp(listen);
  if (!listener.ok()) return listener.status();
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) {
    return absl::FailedPreconditionError(absl::StrCat("eventfd: ", ::strerror(errno)));
  }
  return std::unique_ptr<ConnectionListener>(
      new ConnectionListener(name, *std::move(listener), std::move(wake), bounds, std::move(open)));
}

ConnectionListener::~ConnectionListener() { Stop(); }

void ConnectionListener::Start(Serve serve) {
  serve_ = std::move(serve);
  thread_ = std::thread([this] { Run(); });
}

void ConnectionListener::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
    thread_.join();
  }
  listener_.fd.Reset();
}

void ConnectionListener::Run() {
  absl::Duration pause;
  while (true) {
    const bool paused = pause > absl::ZeroDuration();
    std::array<pollfd, 2> fds = {pollfd{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                                 pollfd{.fd = listener_.fd.get(), .events = POLLIN, .revents = 0}};
    (void)::poll(fds.data(), paused ? 1 : 2,
                 paused ? static_cast<int>(absl::ToInt64Milliseconds(pause)) : -1);
    if (fds[0].revents != 0) return;
    pause = TakeOne();
  }
}

absl::Duration ConnectionListener::TakeOne() {
  if (open_->leaving() >= bounds_.leaving()) {
    open_->Sweep(RealClock().SinceBoot());
    if (open_->leaving() >= bounds_.leaving()) return kLeavingPause;
  }
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  UniqueFd connection(::accept4(listener_.fd.get(), reinterpret_cast<sockaddr*>(&address), &size,
                                SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection.valid()) {
    Admit(std::move(connection), PeerOf(address, size));
    return absl::ZeroDuration();
  }
  const int error = errno;
  if (error == EAGAIN || error == EWOULDBLOCK || IsOfThePeer(error)) return absl::ZeroDuration();
  MUSTER_CHECK(IsShortage(error), "a listening socket can no longer be accepted from");
  ++failed_;
  Complain("no_connection_taken",
           absl::StrCat(::strerror(error), ": who connects waits until others have closed"));
  return kShortagePause;
}

ConnectionListener::Room ConnectionListener::MakeRoomFor(const std::string& host) {
  const auto host_is_full = [&] { return open_->FromHost(host) >= bounds_.of_host; };
  const auto full = [&] {
    return host_is_full() || open_->size() - open_->leaving() >= bounds_.all;
  };
  if (full() || open_->size() >= std::max(kSweepFrom, 2 * swept_at_)) {
    open_->Sweep(RealClock().SinceBoot());
    swept_at_ = open_->size();
  }
  if (!full()) return Room::kFree;
  if (!open_->MakeRoom(host_is_full() ? host : "")) return Room::kNone;
  ++displaced_;
  return Room::kMade;
}

void ConnectionListener::Admit(UniqueFd connection, const OpenConnections::Peer& peer) {
  const Room room = MakeRoomFor(peer.host);
  if (room != Room::kFree) {
    Complain(room == Room::kMade ? "connection_displaced" : "connection_refused",
             absl::StrCat(open_->size(), " connections are open, ", open_->FromHost(peer.host),
                          " of them from ", peer.host, "; at most ", bounds_.all, " in all and ",
                          bounds_.of_host, " from one address may be"));
  }
  if (room == Room::kNone) {
    ++refused_;
    return;
  }
  open_->Add(connection.get(), peer);
  serve_(listener_.fd.get(), std::move(connection));
}

void ConnectionListener::Complain(const char* event, const std::string& why) {
  const absl::Duration now = RealClock().SinceBoot();
  if (now - complained_ < kComplainEvery) return;
  complained_ = now;
  Log(LogLevel::kWarning, event, {{"port", name_}, {"why", why}});
}

}  // namespace muster::controller
