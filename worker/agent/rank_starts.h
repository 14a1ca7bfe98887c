// Ranks whose process is being started, on a thread of its own: running a program waits for the
// file system that holds it, and the agent's loop must not.
//
// Starts go one at a time, in order. The thread is the parent of every rank's process, which dies
// with it. All else on the event loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/agent/background_thread.h"
#include "worker/agent/mailbox.h"
#include "worker/agent/rank.h"
#include "worker/agent/rank_key.h"
#include "worker/agent/rank_process.h"
#include "worker/agent/supervisor_rules.h"

namespace muster::worker {

class RankStarts {
 public:
  struct Starting {
    RankPlan plan;
    std::optional<StopRequest> stop;  // it was asked to leave meanwhile
    absl::Duration stopped_at;        // since boot, the first time
  };
  // The process runs, or why it does not: as LaunchProcess. On the loop.
  using Done = std::function<void(Starting, absl::StatusOr<StartedProcess>)>;

  RankStarts(std::shared_ptr<Mailbox> mailbox, Done done)
      : done_(std::move(done)), thread_(std::move(mailbox)) {}

  void Begin(RankPlan plan);
  // Those that are wanted are stopped once their process is there, by the harshest of the requests.
  void Stop(const StopRequest& request, absl::Duration now,
            const std::function<bool(const RankKey&)>& wanted);
  void ForEach(const std::function<void(const Starting&)>& visit) const;

 private:
  void Finish(const RankKey& key, absl::StatusOr<StartedProcess> process);

  const Done done_;
  std::map<RankKey, Starting> starting_;
  BackgroundThread thread_;  // last: it reads the commands in starting_
};

}  // namespace muster::worker
