// One rank's container from its start until it is removed, where podman or apptainer runs it: what
// its runtime's end means for the program, and what is left to clear. Used by Rank, on the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/unique_fd.h"
#include "worker/agent/base/event_loop.h"
#include "worker/agent/container/container_socket.h"
#include "worker/agent/container/containers.h"
#include "worker/agent/process/rank_process.h"

namespace muster::worker {

class RankContainer {
 public:
  struct Deps {
    EventLoop& loop;
    Containers& containers;
  };
  struct Callbacks {
    std::function<void()> on_running;  // the program runs; podman's alone says so
    // The program has ended, and its runtime does not: it should be killed.
    std::function<void()> on_stuck;
  };
  // `folder` is the rank's. `socket` leads to muster-init under podman; else there is none.
  RankContainer(const Deps& deps, ContainerPlan plan, std::string folder, UniqueFd socket,
                Callbacks callbacks);
  ~RankContainer();
  RankContainer(const RankContainer&) = delete;
  RankContainer& operator=(const RankContainer&) = delete;

  bool by_podman() const { return plan_.runtime == ContainerRuntime::kPodman; }
  bool limits_memory() const { return plan_.limits_memory; }

  // Ends at once what is inside, which is not of the runtime's process group.
  void Kill();

  // The program's end instead of its runtime's. Not OK: the program never ran, and why. Call once,
  // when the runtime has ended.
  absl::Status ClassifyEnd(ExitStatus& exit);
  // podman's monitor and what it holds are still there, after its end. Soon they are not, or they
  // are ended here: podman that is killed while it starts a container leaves them.
  bool AwaitMonitor();
  // After ClassifyEnd: the kernel ended processes inside because they needed more memory.
  bool out_of_memory() const { return socket_ != nullptr && socket_->out_of_memory(); }
  // Tries until the container is removed; then `done`, on a later turn.
  void Remove(std::function<void()> done);
  // Not empty: it is being removed, and this is in the way.
  std::string RemovalTrouble() const;

 private:
  std::string EndOfErrors() const;

  const Deps deps_;
  const ContainerPlan plan_;
  const std::string folder_;
  std::unique_ptr<ContainerSocket> socket_;  // to muster-init
  EventLoop::TimerId timer_ = 0;
  bool was_killed_ = false;  // the runtime
  bool seen_clear_ = false;
  absl::Duration monitor_seen_ = absl::InfiniteDuration();  // since boot: first after the end
  bool removing_ = false;
  std::string removal_error_;
};

}  // namespace muster::worker
