#include "common/metrics/http_connection.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "common/metrics/http_text.h"

namespace muster {

short HttpConnection::wanted() const {
  switch (state_) {
    case State::kReading:
    case State::kLingering:
      return POLLIN;
    case State::kWriting:
      return POLLOUT;
    case State::kAsked:
    case State::kTooLarge:
    case State::kOver:
      return 0;
  }
  return 0;
}

void HttpConnection::OnReady() {
  if (state_ == State::kWriting) {
    Write();
  } else {
    Read();
  }
}

void HttpConnection::Read() {
  char buffer[4096];
  const ssize_t got = ::recv(peer_.fd.get(), buffer, sizeof(buffer), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    state_ = State::kOver;
    return;
  }
  if (state_ != State::kReading) return;
  in_.append(buffer, static_cast<size_t>(got));
  if (in_.size() > max_head_bytes_) {
    state_ = State::kTooLarge;
  } else if (IsWholeHead(in_)) {
    state_ = State::kAsked;
  }
}

void HttpConnection::Answer(std::string text, absl::Duration deadline) {
  in_ = std::string();
  out_ = std::move(text);
  deadline_ = deadline;
  state_ = State::kWriting;
  Write();
}

void HttpConnection::Write() {
  while (written_ < out_.size()) {
    const ssize_t put = ::send(peer_.fd.get(), out_.data() + written_, out_.size() - written_,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) return;
    if (put < 0) {
      state_ = State::kOver;
      return;
    }
    written_ += static_cast<size_t>(put);
  }
  out_ = std::string();
  (void)::shutdown(peer_.fd.get(), SHUT_WR);
  state_ = State::kLingering;
}

}  // namespace muster
