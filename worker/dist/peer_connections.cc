#include "worker/dist/peer_connections.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/deadline.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Until a silent connection is asked whether its host is there; between two questions; questions.
// A process that is stopped does answer: its kernel does.
constexpr int kIdleSeconds = 30;
constexpr int kAgainSeconds = 10;
constexpr int kQuestions = 3;
// Connections that have not said who they are; beyond, the oldest is closed.
constexpr size_t kMostStrangers = 256;

// Where a rank listens, as it says in the store.
struct Card {
  uint64_t secret = 0;
  std::string host, port;  // as numbers

  std::string Encode() const { return absl::StrCat(secret, " ", host, " ", port); }
  static absl::StatusOr<Card> Decode(absl::string_view text) {
    const std::vector<std::string> parts = absl::StrSplit(text, ' ');
    Card card;
    if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &card.secret))
      return absl::InternalError("a rank wrote an unreadable address of itself into the store");
    card.host = parts[1];
    card.port = parts[2];
    return card;
  }
};

// The first bytes on a connection; in the machine's byte order, as Gloo's are.
struct Hello {
  uint64_t secret;  // of the rank that listens
  int64_t rank;     // that connects
};

absl::Status Unavailable(absl::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

absl::StatusOr<Addresses> Resolve(const std::string& host, const char* port) {
  addrinfo wanted = {};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), port, &wanted, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("no address for ", host, ": ", ::gai_strerror(error)));
  }
  return Addresses(found, &::freeaddrinfo);
}

UniqueFd NewSocket(int family) {
  return UniqueFd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

absl::StatusOr<UniqueFd> Listen(const PeerConnectionsOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const Addresses addresses, Resolve(options.address, nullptr));
  int error = 0;
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    UniqueFd fd = NewSocket(one->ai_family);
    if (fd.valid() && ::bind(fd.get(), one->ai_addr, one->ai_addrlen) == 0 &&
        ::listen(fd.get(), std::max(options.world_size, 128)) == 0) {
      return fd;
    }
    error = errno;
  }
  return Unavailable(absl::StrCat("listening at ", options.address), error);
}

absl::StatusOr<Card> CardOf(const UniqueFd& listener) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return Unavailable("getsockname", errno);
  const int error = ::getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, host, sizeof host,
                                  port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) return absl::InternalError(::gai_strerror(error));
  std::random_device random;
  return Card{(uint64_t{random()} << 32) | random(), host, port};
}

int MillisecondsUntil(const Deadline& deadline) {
  return static_cast<int>(absl::ToInt64Milliseconds(std::min(deadline.left(), absl::Minutes(1))));
}

bool IsReady(int fd, int16_t events, const Deadline& deadline) {
  pollfd wanted = {fd, events, 0};
  do {
    if (::poll(&wanted, 1, MillisecondsUntil(deadline)) > 0) return true;
  } while (!deadline.over());
  return false;
}

void SetKeepAlive(int fd) {
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof kIdleSeconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kAgainSeconds, sizeof kAgainSeconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kQuestions, sizeof kQuestions);
}

absl::StatusOr<UniqueFd> ConnectTo(int peer, const Card& card, int rank, const Deadline& deadline) {
  const std::string what = absl::StrCat("connecting to rank ", peer, " at ", card.host);
  MUSTER_ASSIGN_OR_RETURN(const Addresses addresses, Resolve(card.host, card.port.c_str()));
  UniqueFd fd = NewSocket(addresses->ai_family);
  if (!fd.valid()) return Unavailable(what, errno);
  if (::connect(fd.get(), addresses->ai_addr, addresses->ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return Unavailable(what, errno);
    if (!IsReady(fd.get(), POLLOUT, deadline)) return absl::DeadlineExceededError(what);
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return Unavailable(what, error);
  }
  const Hello hello = {card.secret, rank};
  if (::send(fd.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
    return Unavailable(what, errno);
  SetKeepAlive(fd.get());
  return fd;
}

// Those who connected, until they have said who they are.
class Reception {
 public:
  Reception(const UniqueFd& listener, const Card& card, std::vector<UniqueFd>& peers)
      : listener_(listener), secret_(card.secret), peers_(peers) {}

  // For those behind `rank`.
  absl::Status Await(int rank, const Deadline& deadline) {
    for (size_t peer = static_cast<size_t>(rank) + 1; peer < peers_.size(); ++peer) {
      while (!peers_[peer].valid()) {
        if (deadline.over()) {
          return absl::DeadlineExceededError(
              absl::StrCat("rank ", peer, " did not connect to rank ", rank));
        }
        Serve(static_cast<size_t>(rank), deadline);
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Stranger {
    UniqueFd fd;
    char bytes[sizeof(Hello)];
    size_t heard = 0;
  };

  void Serve(size_t rank, const Deadline& deadline) {
    std::vector<pollfd> wanted = {{listener_.get(), POLLIN, 0}};
    for (const Stranger& stranger : strangers_) wanted.push_back({stranger.fd.get(), POLLIN, 0});
    if (::poll(wanted.data(), wanted.size(), MillisecondsUntil(deadline)) <= 0) return;
    for (size_t i = strangers_.size(); i-- > 0;) {
      if (wanted[i + 1].revents != 0 && !Hear(strangers_[i], rank))
        strangers_.erase(strangers_.begin() + static_cast<ptrdiff_t>(i));
    }
    if (wanted[0].revents == 0) return;
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) return;
    if (strangers_.size() >= kMostStrangers) strangers_.erase(strangers_.begin());
    strangers_.push_back({std::move(fd), {}, 0});
  }

  // False: it is no stranger any more, or remains one for good.
  bool Hear(Stranger& stranger, size_t rank) {
    const ssize_t got = ::recv(stranger.fd.get(), stranger.bytes + stranger.heard,
                               sizeof(Hello) - stranger.heard, 0);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    stranger.heard += static_cast<size_t>(got);
    if (stranger.heard < sizeof(Hello)) return true;
    Hello hello;
    std::memcpy(&hello, stranger.bytes, sizeof hello);
    const size_t peer = static_cast<size_t>(hello.rank);
    if (hello.secret != secret_ || peer <= rank || peer >= peers_.size() || peers_[peer].valid())
      return false;
    SetKeepAlive(stranger.fd.get());
    peers_[peer] = std::move(stranger.fd);
    return false;
  }

  const UniqueFd& listener_;
  const uint64_t secret_;
  std::vector<UniqueFd>& peers_;
  std::vector<Stranger> strangers_;
};

}  // namespace

absl::StatusOr<std::vector<UniqueFd>> ConnectPeers(KeyValue& store,
                                                   const PeerConnectionsOptions& options) {
  const Deadline deadline(options.timeout);
  const auto key = [&](int rank) { return absl::StrCat(options.prefix, "watch/", rank); };
  MUSTER_ASSIGN_OR_RETURN(const UniqueFd listener, Listen(options));
  MUSTER_ASSIGN_OR_RETURN(const Card mine, CardOf(listener));
  MUSTER_RETURN_IF_ERROR(store.Set(key(options.rank), mine.Encode()));
  std::vector<UniqueFd> peers(static_cast<size_t>(options.world_size));
  for (int rank = 0; rank < options.rank; ++rank) {
    MUSTER_ASSIGN_OR_RETURN(const std::string text, store.Get(key(rank), options.timeout));
    MUSTER_ASSIGN_OR_RETURN(const Card card, Card::Decode(text));
    MUSTER_ASSIGN_OR_RETURN(peers[rank], ConnectTo(rank, card, options.rank, deadline));
  }
  MUSTER_RETURN_IF_ERROR(Reception(listener, mine, peers).Await(options.rank, deadline));
  return peers;
}

}  // namespace muster::worker
