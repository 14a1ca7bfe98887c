// The socket of one command's rank, named to it in MUSTER_SOCKET: any process of the rank connects
// and speaks JSON Lines (worker/link), several at a time.
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

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/unique_fd.h"
#include "worker/agent/event_loop.h"
#include "worker/agent/rank_link.h"
#include "worker/link/link_messages.h"

namespace muster::worker {

class CommandSocket {
 public:
  using ConnectionId = uint64_t;
  // Further ones wait to be accepted until others end.
  static constexpr size_t kMaxConnections = 64;
  using OnLine = std::function<void(ConnectionId, RankLine)>;

  // Listens at `<folder>/muster.sock`, mode 0600; where that is too long for a socket's address, in
  // a folder of its own under /tmp. `loop` outlives it. UNAVAILABLE: it cannot be made.
  static absl::StatusOr<std::unique_ptr<CommandSocket>> Listen(EventLoop& loop,
                                                               const std::string& folder);
  ~CommandSocket();
  CommandSocket(const CommandSocket&) = delete;
  CommandSocket& operator=(const CommandSocket&) = delete;

  const std::string& path() const { return path_; }

  // Takes connections from now on; those that came before have waited. `on_line` must not destroy
  // the socket. Call once.
  void Serve(OnLine on_line);

  // Dropped when the connection is gone.
  void Send(ConnectionId to, const AgentLine& line);
  void Broadcast(const AgentLine& line);
  // Reads all that is there now: the processes are gone and will write no more.
  void Drain();

 private:
  explicit CommandSocket(EventLoop& loop) : loop_(loop) {}
  absl::Status Open(const std::string& folder);
  void Accept();
  void Remove(ConnectionId id);

  EventLoop& loop_;
  OnLine on_line_;
  std::string path_;
  std::string own_folder_;  // made for the socket alone; empty: none
  UniqueFd listener_;
  bool serving_ = false;
  std::map<ConnectionId, std::shared_ptr<RankLink>> links_;
  ConnectionId next_ = 1;
  // Outlived by tasks on the loop that must then do nothing.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::worker
