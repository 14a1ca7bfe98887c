// Which jobs that have ended leave the model and state.db for history.db, and come back when
// somebody wants something of them. Pure.
//
// A job goes alone; the tasks of an array, which are found by their places in it, go together. It
// stays while
// - it, or another task of its array, has not ended, or a rank of it may hold slots;
// - one of its checkpoints is to be reread or deleted;
// - an agent is still to be told something of it or of its checkpoints;
// - a job that has not ended was submitted to wait for it (scheduling.after);
// - a job that is here was submitted to begin from its checkpoints;
// - it is the newest of its name and older ones are here: a name must not come to mean an older
//   job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

// No job leaves until so much time has passed since its end and since the controller's start,
// however many have ended: whoever waits for a job, or comes back to it after a lost connection,
// hears of its end. Much longer than a client waits for a controller that went away
// (cli/calls/follow.h: two minutes).
inline constexpr absl::Duration kLeastKept = absl::Minutes(5);
// A job that leaves only because too many have ended stays for so long after its end: as long as
// its uploaded folder is kept, so that it can be queued again.
inline constexpr absl::Duration kLeastKeptBeyondRecent = absl::Hours(1);

struct ArchiveSettings {
  // Of jobs that have ended so many stay in memory; beyond that the longest ended ones leave.
  size_t recent = std::numeric_limits<size_t>::max();
  // An archived job is forgotten so long after its end by ledger time, or earlier while more than
  // `most` are archived; a job with a checkpoint that may be on a disk is not. One that is so old
  // leaves memory, too, whatever `recent` says. Infinite: for none.
  absl::Duration forget_after = absl::InfiniteDuration();
  size_t most = std::numeric_limits<size_t>::max();
  // Only the simulator, whose jobs live for minutes, has them shorter.
  absl::Duration least_kept = kLeastKept;
  absl::Duration least_kept_beyond_recent = kLeastKeptBeyondRecent;

  bool ArchivesAny() const {
    return recent != std::numeric_limits<size_t>::max() || forget_after != absl::InfiniteDuration();
  }
};

// Ended jobs that must stay for now: an assignment in the outbox is about them, or a job that has
// not ended waits for them (scheduling.after). A task of an array is named by the array's first
// job. `also`: jobs that changed in a draft, so that the snapshot's lists of jobs do not show it
// yet; they must stay, too, and so must the jobs that they wait for or begin from. Walks over the
// outbox and over the jobs that wait for others.
std::set<uint64_t> NeededYet(const Snapshot& snapshot, const std::set<uint64_t>& also = {});

// What goes together.
struct EndedJobs {
  uint64_t first = 0;
  uint64_t last = 0;
  absl::Time finished;  // by ledger time, of the last that ended

  uint64_t size() const { return last - first + 1; }
};

// The job, or the array of which it is the first, if that may go; none: it stays, or is no first
// one of an array. `needed` is NeededYet.
std::optional<EndedJobs> EvaluateEnded(const Snapshot& snapshot, const std::set<uint64_t>& needed,
                                       uint64_t id);

}  // namespace muster::controller
