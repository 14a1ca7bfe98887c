// Known bugs that the simulator must find, planted in the code that they would live in.
//
// Planted(bug) is constexpr false in every ordinary build, so that the compiler drops the branch.
// Only the variant of the core that muster_sim links is compiled with MUSTER_PLANTED_BUGS; there
// one bug at a time is chosen at run time. docs/simulation.md tells how soon each one is found.
#pragma once

#include <cstdlib>
#include <iterator>

#include "absl/strings/string_view.h"

namespace muster {

enum class PlantedBug {
  kNone,
  kNoFencing,         // a checkpoint of the attempt before the live one counts
  kEarlyAnswer,       // answers agents before the commit
  kLazySync,          // synchronous=NORMAL
  kNoRequestId,       // an idempotency key is forgotten when its job has ended
  kLostOutbox,        // orders to delete, or to stop a later attempt, are not read back
  kEarlySlotRelease,  // a slot is free once its agent has heard the order to kill
  kStaleIncarnation,  // of a name's fenced agents only the last is known after a restart
  kNoDeduplication,   // which report a reborn agent sent last is forgotten by a restart
  kNoLease,           // publishes while the connection stands, whatever the lease says
  kForgottenSlot,     // ranks lose their slots when their agent has not heard of any yet
  kQuotaOffByOne,     // one slot of a gang that is preempted or stopped counts as free already
  kUnsettledLog,      // builds on a log that a failed fsync may have left in memory only
  kNoYieldAbroad,     // makes way for a job of another project, takes the slots back, and again
  kGrowPastUser,      // grows although its user's quota lets it come back no larger
  kNoticeIsGone,      // who gave notice and is cut off has left its name, whatever still runs there
  kUnkillableIsDead,  // a rank that SIGKILL did not end loses its slots when its worker is lost
  kBudgetRefill,      // also a commit below one before refills the restart budgets
  kStaleMarks,        // how far a rank's metrics were taken in is noted with its first batch only
  kOneWordCondemns,   // one worker's verdict on a checkpoint counts although another could read it
};

inline constexpr absl::string_view kPlantedBugNames[] = {
    "none",
    "no-fencing",
    "early-answer",
    "lazy-sync",
    "no-request-id",
    "lost-outbox",
    "early-slot-release",
    "stale-incarnation",
    "no-deduplication",
    "no-lease",
    "forgotten-slot",
    "quota-off-by-one",
    "unsettled-log",
    "no-yield-abroad",
    "grow-past-user",
    "notice-is-gone",
    "unkillable-is-dead",
    "budget-refill",
    "stale-marks",
    "one-word-condemns",
};

#if defined(MUSTER_PLANTED_BUGS)

// The one that is active: by MUSTER_PLANTED_BUG in the environment, or as the simulator sets it.
inline PlantedBug& ActivePlantedBug() {
  static PlantedBug active = [] {
    const char* name = std::getenv("MUSTER_PLANTED_BUG");
    for (size_t i = 0; name != nullptr && i < std::size(kPlantedBugNames); ++i) {
      if (kPlantedBugNames[i] == name) return static_cast<PlantedBug>(i);
    }
    return PlantedBug::kNone;
  }();
  return active;
}
inline bool Planted(PlantedBug bug) { return ActivePlantedBug() == bug; }

#else

constexpr bool Planted(PlantedBug) { return false; }

#endif

}  // namespace muster
