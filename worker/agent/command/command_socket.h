// What one command's rank says at the socket that MUSTER_SOCKET names: any process of the rank
// connects and speaks JSON Lines (worker/link), several at a time.
//
// A command is not ours, so what it says wrong is answered with an error line and skipped; only a
// line beyond all bounds, or a peer that never reads, costs it its connection. Lives on the event
// loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "worker/agent/base/event_loop.h"
#include "worker/agent/command/command_listener.h"
#include "worker/agent/command/rank_socket.h"
#include "worker/link/link_messages.h"

namespace muster::worker {

class CommandSocket {
 public:
  using ConnectionId = uint64_t;
  // Further ones wait to be accepted until others end.
  static constexpr size_t kMaxConnections = 64;
  using OnLine = std::function<void(ConnectionId, RankLine)>;

  // Whoever connected before is dropped. Both outlive it; no other one uses the listener meanwhile.
  CommandSocket(EventLoop& loop, CommandListener& listener);
  ~CommandSocket();
  CommandSocket(const CommandSocket&) = delete;
  CommandSocket& operator=(const CommandSocket&) = delete;

  const std::string& path() const { return listener_.path(); }

  // Takes connections from now on; those that came before have waited. `on_line` must not destroy
  // the socket. Call once.
  void Serve(OnLine on_line);

  // The connection is owed an answer that comes later: it stays until that is sent, also when its
  // peer has said all (as `socat` does at the end of its input).
  void Owe(ConnectionId to);
  void PayOwed(ConnectionId to, const AgentLine& line);
  // Dropped when the connection is gone.
  void Send(ConnectionId to, const AgentLine& line);
  void Broadcast(const AgentLine& line);
  // Reads all that is there now: the processes are gone and will write no more.
  void Drain();

 private:
  struct Connection {
    std::shared_ptr<RankSocket> link;
    int owed = 0;
    bool said_all = false;
  };

  void Accept();
  // On a later turn: the link may be in the call.
  void RemoveSoon(ConnectionId id);
  void Remove(ConnectionId id);

  EventLoop& loop_;
  CommandListener& listener_;
  OnLine on_line_;
  bool serving_ = false;
  std::map<ConnectionId, Connection> connections_;
  ConnectionId next_ = 1;
  // Outlived by tasks on the loop that must then do nothing.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::worker
