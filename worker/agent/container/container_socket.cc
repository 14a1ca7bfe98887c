#include "worker/agent/container/container_socket.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace muster::worker {
namespace {

// muster-init says a few short lines; whoever says more has taken its place, and is not heard.
constexpr size_t kMaxWordBytes = 1024;

}  // namespace

ContainerSocket::ContainerSocket(EventLoop& loop, UniqueFd socket)
    : loop_(loop), socket_(std::move(socket)) {
  loop_.Watch(socket_.get(), POLLIN, [this](short) { ReadAll(); });
}

void ContainerSocket::Close() {
  if (!socket_.valid()) return;
  loop_.Unwatch(socket_.get());
  socket_.Reset();
}

void ContainerSocket::ReadAll() {
  char buffer[512];
  while (socket_.valid()) {
    const ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0) return;
    // Nobody holds the other end any more: podman's exit says the rest.
    if (got == 0 || partial_.size() > kMaxWordBytes) return Close();
    partial_.append(buffer, static_cast<size_t>(got));
    size_t end = 0;
    while ((end = partial_.find('\n')) != std::string::npos) {
      const std::string line = partial_.substr(0, end);
      partial_.erase(0, end + 1);
      Take(line);
    }
  }
}

void ContainerSocket::Take(absl::string_view line) {
  int number = 0;
  if (line == "running") {
    if (!std::exchange(ran_, true) && on_running) on_running();
    return;
  }
  if (line == "out_of_memory") {
    out_of_memory_ = true;
    return;
  }
  const bool by_signal = absl::ConsumePrefix(&line, "signal ");
  if (by_signal || absl::ConsumePrefix(&line, "exit ")) {
    const bool good = absl::SimpleAtoi(line, &number) && number > 0 && number < NSIG;
    if (by_signal && good) signal_ = number;
  } else {
    error_ = std::string(line);
  }
  if (on_ended) on_ended();
}

}  // namespace muster::worker
