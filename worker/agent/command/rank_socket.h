// The agent's end of one rank's socket, on the event loop: lines in, lines out, both bounded, never
// blocking.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/base/unique_fd.h"
#include "worker/agent/base/event_loop.h"
#include "worker/link/line_buffer.h"
#include "worker/link/link_messages.h"

namespace muster::worker {

class RankSocket {
 public:
  // Bytes that may wait for a rank that does not read; beyond it the socket is broken.
  static constexpr size_t kMaxUnsentBytes = 64u << 20;

  struct Handlers {
    std::function<void(RankLine)> on_line;
    // Once: the rank broke the protocol or does not read (RESOURCE_EXHAUSTED, INVALID_ARGUMENT). An
    // end of file is none.
    std::function<void(absl::Status)> on_broken;
    // Where it is set, a line that is no good is told here and skipped, and so is one of an unknown
    // type; else the former breaks the socket and the latter is dropped.
    std::function<void(const absl::Status&)> on_bad_line = nullptr;
    // Once: the peer has closed its end.
    std::function<void()> on_end = nullptr;
    // Once, where it is set: the peer will say no more, but may still listen. What is sent from now
    // on may reach it, until on_end.
    std::function<void()> on_half_closed = nullptr;
  };

  // `loop` outlives the socket. Handlers are called from the loop, or from Drain; they must not
  // destroy the socket.
  RankSocket(EventLoop& loop, UniqueFd socket, Handlers handlers);
  ~RankSocket();
  RankSocket(const RankSocket&) = delete;
  RankSocket& operator=(const RankSocket&) = delete;

  // Queued and sent as the rank reads; dropped when the socket is closed.
  void Send(const AgentLine& line);
  // Reads all that is there now: the rank is gone and will write no more.
  void Drain();

 private:
  void OnReady(short revents);
  bool ReadSome();  // false: nothing more for now, or closed
  void WriteSome();
  void SetEvents();
  void OnEndOfFile();
  void Close();
  void End();
  void Break(absl::Status status);

  EventLoop& loop_;
  UniqueFd socket_;
  const Handlers handlers_;
  LineBuffer incoming_;
  std::string outgoing_;
  bool said_all_ = false;  // the peer
};

}  // namespace muster::worker
