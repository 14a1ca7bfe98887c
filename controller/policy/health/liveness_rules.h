// Who has been silent for too long. Pure: snapshot and time in, findings out; the applier checks
// each again.
#pragma once

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/events.h"

namespace muster::controller {

struct LivenessSettings {
  absl::Duration suspect_after;
  absl::Duration lost_after;
  absl::Duration startup_grace;
  absl::Duration start_timeout;  // from the placement, or the last sign that the start goes on
  // Since boot: since when this controller has received messages without a break: since its start,
  // or since it last stood still.
  absl::Duration hears_since;
  absl::Duration started;  // since boot, of this controller
  // Lost workers that hold nothing are forgotten after this time; infinite: never.
  absl::Duration forget_after = absl::InfiniteDuration();
  // A worker lost with ranks, whose death nobody has confirmed, is taken for gone after this time
  // of silence. Only time since this controller's start counts. Its slots are then free.
  // Infinite: never.
  absl::Duration forget_gone_after = absl::InfiniteDuration();
};

// Workers that fell silent, or that have been lost for so long that they are forgotten, gangs that
// report no progress before their first step, and ranks without progress (the one that has been
// still for longest, one a job): `most` of them at most. Those that become suspects come first:
// they are applied on a full disk too, where all others are found again in each run. Within the
// startup grace nobody is declared lost, nor any gang hung.
std::vector<Finding> FindSilent(const Snapshot& snapshot, const LivenessSettings& settings,
                                absl::Duration now, size_t most = Findings::kMost);

// Since boot, when the gang that starts last got on: when it was placed, or when one of its ranks
// last reported that its start goes on (it rereads a large checkpoint, say): such a gang may take
// its time. What a rank reported counts also while its worker is away for a moment.
absl::Duration StartGotOnAt(const Snapshot& snapshot, const Attempt& attempt);

// Since boot, when the rank last made progress. Nothing where no progress is expected: the rank has
// ended, its agent has not reported it yet, or is away and cannot (whether that worker is lost is
// decided apart).
std::optional<absl::Duration> LastProgressAt(const Snapshot& snapshot, const Attempt& attempt,
                                             const Rank& rank);

// Whether the worker's row may go by itself: it is lost, holds nothing (or is taken for `gone`),
// and no person keeps work from it. Its failures and its quarantine go with the row, which is kept
// for at least as long as the longest quarantine (server.cc).
bool MayForget(const Worker& worker, bool gone);

}  // namespace muster::controller
