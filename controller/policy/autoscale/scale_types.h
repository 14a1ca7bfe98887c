// A pool whose workers come and go with the queue: what is set of it, what is seen of it, and what
// is decided. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/types/worker_types.h"

namespace muster::controller {

inline constexpr uint32_t kMaxPoolWorkers = 4096;

// Begins the reason of every drain by the autoscaler, by which it knows its own ones again, after a
// restart too.
inline constexpr char kScaleDownReason[] = "autoscale: ";

struct PoolScaling {
  std::string pool;
  uint32_t min = 0;
  uint32_t max = 0;   // at most kMaxPoolWorkers
  WorkerFacts facts;  // of a worker that comes; its pool is this one
  // Jobs must lack workers for so long before more are asked for.
  absl::Duration patience = absl::Seconds(15);
  // A worker that held nothing for so long may go.
  absl::Duration idle_after = absl::Minutes(10);
  // After a change of the number none is taken away for so long.
  absl::Duration cooldown = absl::Minutes(1);
  // Workers that were asked for and have not come within this time are not counted on, for as long
  // again: jobs that may go to a further pool go there.
  absl::Duration start_within = absl::Minutes(15);
  // Only the worker with the highest number at the end of its name can be taken away, as of a
  // StatefulSet; else any.
  bool by_number = false;
};

// A worker of the pool that is there: not lost, and has not given notice.
struct ScaledWorker {
  std::string name;
  absl::Duration idle_since = absl::InfiniteDuration();  // since boot; infinite: it holds ranks
  bool leaving = false;                                  // the autoscaler drains it
  bool kept_out = false;  // a person drains it, or it is in quarantine

  bool idle() const { return idle_since != absl::InfiniteDuration(); }
};

struct PoolSight {
  bool settled = true;  // no worker of the pool is silent: else the shortage is unknown
  std::vector<ScaledWorker> workers;
  uint32_t shortage = 0;              // workers that jobs lack, besides those that are there
  std::set<std::string> wanted_back;  // leaving workers that jobs could use
  std::optional<uint32_t> asked;      // how many are asked for, as the scaler says; none: not known
};

// What is remembered of a pool from one look to the next. In memory only.
struct PoolMemory {
  std::optional<uint32_t> asked;                          // last, with success
  absl::Duration short_since = absl::InfiniteDuration();  // infinite: jobs lack no worker
  absl::Duration missing_since =
      absl::InfiniteDuration();  // infinite: all that were asked for came
  absl::Duration distrusted_until = -absl::InfiniteDuration();
  absl::Duration changed_at = -absl::InfiniteDuration();
};

struct PoolDecision {
  uint32_t asked = 0;                // so far
  uint32_t wanted = 0;               // from now on
  std::vector<std::string> leaving;  // who goes, when `wanted` is less; all hold nothing
  std::vector<std::string> staying;  // everybody else who is there
  std::vector<std::string> drain;    // gets nothing new from now on, to leave at a later look
  std::vector<std::string> undrain;  // is of use again
};

}  // namespace muster::controller
