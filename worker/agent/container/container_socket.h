// The agent's end of the socket to muster-init, the first process of a podman container. While it
// is open the container may live; when it is closed, or the agent dies, muster-init ends everything
// inside at once. So no container outlives its agent, although it is not the agent's child.
//
// muster-init says, a line each: "running" once the program runs, "signal N" when the program was
// ended by one, "exit N" when it ended by itself, "out_of_memory" before either if the kernel ended
// processes for what they needed; else one line of why the program could not be run. Nothing goes
// the other way. On the loop.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/unique_fd.h"
#include "worker/agent/base/event_loop.h"

namespace muster::worker {

class ContainerSocket {
 public:
  // `loop` outlives it.
  ContainerSocket(EventLoop& loop, UniqueFd socket);
  ~ContainerSocket() { Close(); }
  ContainerSocket(const ContainerSocket&) = delete;
  ContainerSocket& operator=(const ContainerSocket&) = delete;

  // The program runs, or ran.
  std::function<void()> on_running;
  // It has ended; what is left of its rank is podman's own work.
  std::function<void()> on_ended;

  // Takes what was said and not yet read. Call once podman is gone, before asking the rest.
  void ReadAll();
  bool ran() const { return ran_; }
  // The signal that ended the program; 0: none.
  int signal() const { return signal_; }
  bool out_of_memory() const { return out_of_memory_; }
  // Why the program could not be run; empty: nothing was said of that.
  const std::string& error() const { return error_; }
  // Ends what is inside.
  void Close();

 private:
  void Take(absl::string_view line);

  EventLoop& loop_;
  UniqueFd socket_;
  std::string partial_;
  bool ran_ = false;
  int signal_ = 0;
  bool out_of_memory_ = false;
  std::string error_;
};

}  // namespace muster::worker
