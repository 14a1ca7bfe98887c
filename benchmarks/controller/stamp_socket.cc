#include "benchmarks/controller/stamp_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace muster::benchmarks {

StampSocket::StampSocket() : path_(absl::StrCat("/tmp/muster-bench-stamp-", ::getpid())) {
  ::unlink(path_.c_str());
  fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
  if (fd_ < 0 || ::bind(fd_, reinterpret_cast<struct sockaddr*>(&address), sizeof(address)) != 0) {
    throw std::runtime_error(path_ + ": cannot bind");
  }
}

StampSocket::~StampSocket() {
  ::close(fd_);
  ::unlink(path_.c_str());
}

std::optional<double> StampSocket::Receive(double timeout_seconds) {
  struct pollfd wait = {.fd = fd_, .events = POLLIN, .revents = 0};
  if (::poll(&wait, 1, static_cast<int>(timeout_seconds * 1e3)) != 1) return std::nullopt;
  char text[64];
  const ssize_t size = ::recv(fd_, text, sizeof(text), 0);
  int64_t nanoseconds = 0;
  if (size <= 0 || !absl::SimpleAtoi(absl::string_view(text, size), &nanoseconds)) {
    return std::nullopt;
  }
  return static_cast<double>(nanoseconds) * 1e-9;
}

}  // namespace muster::benchmarks
