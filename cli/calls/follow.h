// Stays with one job until it has ended, across restarts of the controller.
#pragma once

#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/session/cli_session.h"
#include "cli/session/interrupt.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

struct ReconnectLimits {
  // A controller that was there and went away is waited for this long: it comes back within seconds
  // where something restarts it, and a job runs on meanwhile.
  absl::Duration patience = absl::Minutes(2);
  // A call that reached it and lasted so long had found it, though nothing arrived.
  absl::Duration connected_after = absl::Minutes(1);
};

// Counts how long the controller has been lost, from the first loss on: before it there may have
// been nothing to send for hours. Used by every verb that stays connected.
class Reconnect {
 public:
  Reconnect(Session& session, InterruptGuard& guard, ReconnectLimits limits = {})
      : session_(session), guard_(guard), limits_(limits) {}

  // Something arrived.
  void OnConnected();

  // The stream ended with `status`, and had been connected for `connected`. Waits a moment and
  // returns OK: open it again. Otherwise, at once, the error to end with: when `status` does not
  // come from a lost connection (CANCELLED does, unless the guard was interrupted), when nothing
  // ever arrived, or when patience is spent. It is CANCELLED only after an interrupt.
  absl::Status OnDisconnected(const absl::Status& status, absl::Duration connected);

 private:
  Session& session_;
  InterruptGuard& guard_;
  const ReconnectLimits limits_;
  bool ever_connected_ = false;
  std::optional<absl::Duration> lost_at_;  // nothing: it is not lost
};

// Calls `on_update` for each state of the job that the controller sends, the first at once; returns
// the last one. CANCELLED (exit code 130): Ctrl-C. TimedOut(): the session's --timeout is over.
// Both say that the job goes on. `began`, a SteadyNow(): from when that timeout counts.
absl::StatusOr<v1::JobSummary> FollowJob(
    Session& session, InterruptGuard& guard, const v1::JobRef& job,
    const std::function<void(const v1::JobSummary&)>& on_update,
    absl::Duration began = SteadyNow());

}  // namespace muster::cli
