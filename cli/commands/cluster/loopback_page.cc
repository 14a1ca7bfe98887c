#include "cli/commands/cluster/loopback_page.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/session/host.h"
#include "common/base/unique_fd.h"

namespace muster::cli {
namespace {

constexpr size_t kMostPageBytes = 4 << 20;
constexpr absl::Duration kPagePatience = absl::Seconds(2);

absl::StatusOr<UniqueFd> ConnectToLoopback(uint32_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return absl::ErrnoToStatus(errno, "socket");
  const timeval patience = absl::ToTimeval(kPagePatience);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::UnavailableError(absl::StrCat("nobody answers at 127.0.0.1:", port));
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::string> ReadLoopbackPage(const std::string& url) {
  absl::string_view rest = url;
  uint32_t port = 0;
  const bool loopback = absl::ConsumePrefix(&rest, "http://127.0.0.1:");
  const size_t slash = rest.find('/');
  if (!loopback || slash == absl::string_view::npos ||
      !absl::SimpleAtoi(rest.substr(0, slash), &port) || port > UINT16_MAX) {
    return absl::InvalidArgumentError(absl::StrCat(url, ": not on this machine"));
  }
  absl::StatusOr<UniqueFd> fd = ConnectToLoopback(port);
  if (!fd.ok()) return fd.status();
  const std::string request =
      absl::StrCat("GET ", rest.substr(slash), " HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
  if (::send(fd->get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return absl::UnavailableError(absl::StrCat(url, ": not sent"));
  }
  std::string answer;
  std::array<char, 1 << 14> buffer;
  const absl::Duration end = SteadyNow() + kPagePatience;
  while (answer.size() < kMostPageBytes && SteadyNow() < end) {
    const ssize_t got = ::recv(fd->get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) break;
    answer.append(buffer.data(), static_cast<size_t>(got));
  }
  const size_t body = answer.find("\r\n\r\n");
  const std::string line = answer.substr(0, answer.find('\r'));
  if (body == std::string::npos || !absl::StrContains(line, " 200")) {
    return absl::UnavailableError(absl::StrCat(url, ": ", line.empty() ? "no answer" : line));
  }
  return answer.substr(body + 4);
}

}  // namespace muster::cli
