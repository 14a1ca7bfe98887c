// Ranks whose process is being started, on side threads: running a program waits for the file
// system that holds it, and neither the agent's loop nor another rank's start must.
//
// A start that takes too long is ended, where the kernel lets it be; then it failed. So has one for
// which no thread comes free, as all of them hang. On the event loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/agent/base/rank_key.h"
#include "worker/agent/base/side_threads.h"
#include "worker/agent/base/timers.h"
#include "worker/agent/gang/rank.h"
#include "worker/agent/gang/supervisor_rules.h"
#include "worker/agent/process/rank_process.h"

namespace muster::worker {

class RankStarts {
 public:
  struct Starting {
    RankPlan plan;
    std::optional<StopRequest> stop;  // it was asked to leave meanwhile
    absl::Duration stopped_at;        // since boot, the first time
    // Since boot: when it had taken too long, and was ended.
    absl::Duration gave_up_at = absl::InfiniteDuration();
  };
  // The process runs, or why it does not: as LaunchProcess. On the loop.
  using Done = std::function<void(Starting, absl::StatusOr<StartedProcess>)>;

  // All outlive it, and `threads` the processes. `patience`: with one start, since a thread took it
  // up.
  RankStarts(Timers& timers, SideThreads& threads, absl::Duration patience, Done done)
      : timers_(timers), threads_(threads), patience_(patience), done_(std::move(done)) {}

  void Begin(RankPlan plan);
  // Those that are wanted are stopped once their process is there, by the harshest of the requests.
  void Stop(const StopRequest& request, absl::Duration now,
            const std::function<bool(const RankKey&)>& wanted);
  void ForEach(const std::function<void(const Starting&)>& visit) const;

 private:
  // What the thread holds too.
  struct Launch {
    RankCommand command;
    LaunchWatch watch;
  };

  void Finish(const RankKey& key, absl::StatusOr<StartedProcess> process);

  Timers& timers_;
  SideThreads& threads_;
  const absl::Duration patience_;
  const Done done_;
  std::map<RankKey, Starting> starting_;
};

}  // namespace muster::worker
