#include "worker/agent/command/command_socket.h"

#include <poll.h>

#include <utility>
#include <vector>

#include "common/base/unique_fd.h"

namespace muster::worker {

CommandSocket::CommandSocket(EventLoop& loop, CommandListener& listener)
    : loop_(loop), listener_(listener) {
  listener_.DropWaiting();
}

void CommandSocket::Serve(OnLine on_line) {
  on_line_ = std::move(on_line);
  loop_.Watch(listener_.fd(), POLLIN, [this](short) { Accept(); });
  serving_ = true;
}

CommandSocket::~CommandSocket() {
  *alive_ = false;
  if (serving_) loop_.Unwatch(listener_.fd());
  connections_.clear();
}

void CommandSocket::Accept() {
  UniqueFd fd = listener_.Accept();
  if (!fd.valid()) return;
  const ConnectionId id = next_++;
  RankSocket::Handlers handlers;
  handlers.on_line = [this, id](RankLine line) { on_line_(id, std::move(line)); };
  handlers.on_broken = [this, id](absl::Status) { RemoveSoon(id); };
  handlers.on_bad_line = [this, id](const absl::Status& status) {
    Send(id, ErrorLine{std::string(status.message())});
  };
  handlers.on_end = [this, id] { RemoveSoon(id); };
  handlers.on_half_closed = [this, id] {
    const auto it = connections_.find(id);
    if (it == connections_.end()) return;
    it->second.said_all = true;
    if (it->second.owed == 0) RemoveSoon(id);
  };
  connections_[id].link = std::make_shared<RankSocket>(loop_, std::move(fd), std::move(handlers));
  if (connections_.size() >= kMaxConnections) loop_.SetEvents(listener_.fd(), 0);
}

void CommandSocket::RemoveSoon(ConnectionId id) {
  loop_.After(absl::ZeroDuration(), [this, id, alive = alive_] {
    if (*alive) Remove(id);
  });
}

void CommandSocket::Remove(ConnectionId id) {
  connections_.erase(id);
  if (connections_.size() < kMaxConnections) loop_.SetEvents(listener_.fd(), POLLIN);
}

void CommandSocket::Send(ConnectionId to, const AgentLine& line) {
  const auto it = connections_.find(to);
  if (it != connections_.end()) it->second.link->Send(line);
}

void CommandSocket::Owe(ConnectionId to) {
  const auto it = connections_.find(to);
  if (it != connections_.end()) ++it->second.owed;
}

void CommandSocket::PayOwed(ConnectionId to, const AgentLine& line) {
  const auto it = connections_.find(to);
  if (it == connections_.end()) return;
  it->second.link->Send(line);
  if (--it->second.owed == 0 && it->second.said_all) RemoveSoon(to);
}

void CommandSocket::Broadcast(const AgentLine& line) {
  for (const auto& [id, connection] : connections_) connection.link->Send(line);
}

void CommandSocket::Drain() {
  // A process may have connected, spoken and gone within one turn of the loop.
  for (size_t before = 0; before != next_;) {
    before = next_;
    if (connections_.size() < kMaxConnections) Accept();
  }
  std::vector<std::shared_ptr<RankSocket>> links;
  for (const auto& [id, connection] : connections_) links.push_back(connection.link);
  for (const auto& link : links) link->Drain();
}

}  // namespace muster::worker
