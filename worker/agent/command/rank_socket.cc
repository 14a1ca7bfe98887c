#include "worker/agent/command/rank_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <utility>

#include "common/base/log.h"

namespace muster::worker {
namespace {

constexpr size_t kReadBytes = 64u << 10;

}  // namespace

RankSocket::RankSocket(EventLoop& loop, UniqueFd socket, Handlers handlers)
    : loop_(loop), socket_(std::move(socket)), handlers_(std::move(handlers)) {
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
  loop_.Watch(socket_.get(), POLLIN, [this](short revents) { OnReady(revents); });
}

RankSocket::~RankSocket() { Close(); }

void RankSocket::Close() {
  if (!socket_.valid()) return;
  loop_.Unwatch(socket_.get());
  socket_.Reset();
}

void RankSocket::Break(absl::Status status) {
  Close();
  handlers_.on_broken(std::move(status));
}

void RankSocket::OnEndOfFile() {
  pollfd state = {socket_.get(), 0, 0};
  const bool gone = ::poll(&state, 1, 0) != 0;  // both directions are closed
  if (gone || !handlers_.on_half_closed) return End();
  said_all_ = true;
  SetEvents();
  handlers_.on_half_closed();
}

void RankSocket::End() {
  Close();
  if (handlers_.on_end) handlers_.on_end();
}

void RankSocket::OnReady(short revents) {
  if (said_all_ && (revents & (POLLHUP | POLLERR)) != 0) return End();
  if ((revents & POLLOUT) != 0) WriteSome();
  // One read a turn: a flood from one rank must not keep the loop from the others.
  if (socket_.valid() && (revents & (POLLIN | POLLHUP | POLLERR)) != 0) ReadSome();
}

void RankSocket::Drain() {
  while (ReadSome()) {
  }
}

bool RankSocket::ReadSome() {
  if (!socket_.valid() || said_all_) return false;
  char buffer[kReadBytes];
  const ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, 0);
  if (got < 0) {
    if (errno == EINTR) return true;
    if (errno != EAGAIN) End();
    return false;
  }
  if (got == 0) {
    OnEndOfFile();
    return false;
  }
  const absl::Status bounded = incoming_.Append({buffer, static_cast<size_t>(got)});
  while (const auto text = incoming_.Next()) {
    absl::StatusOr<RankLine> line = DecodeRankLine(*text);
    if (line.ok()) {
      handlers_.on_line(*std::move(line));
      if (!socket_.valid()) return false;
    } else if (handlers_.on_bad_line) {
      handlers_.on_bad_line(line.status());
      if (!socket_.valid()) return false;
    } else if (!absl::IsNotFound(line.status())) {
      Break(line.status());
      return false;
    }
  }
  if (!bounded.ok()) Break(bounded);
  return socket_.valid();
}

void RankSocket::Send(const AgentLine& line) {
  if (!socket_.valid()) return;
  outgoing_ += Encode(line);
  WriteSome();
  if (outgoing_.size() > kMaxUnsentBytes) {
    Break(absl::ResourceExhaustedError("the rank does not read its link"));
  }
}

void RankSocket::WriteSome() {
  while (!outgoing_.empty()) {
    const ssize_t put = ::send(socket_.get(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (put < 0) {
      if (errno == EINTR) continue;
      // A rank that has gone is noticed by its exit; what it wrote before is still to be read.
      if (errno != EAGAIN) outgoing_.clear();
      break;
    }
    outgoing_.erase(0, static_cast<size_t>(put));
  }
  SetEvents();
}

void RankSocket::SetEvents() {
  const short in = said_all_ ? 0 : POLLIN;
  const short out = outgoing_.empty() ? 0 : POLLOUT;
  loop_.SetEvents(socket_.get(), static_cast<short>(in | out));
}

}  // namespace muster::worker
