// Brings workers to pools where jobs lack them, and sends idle ones away: a thread beside the
// engine.
//
// It reads snapshots, drains, undrains and forgets through the engine as people do, and asks
// scalers for numbers. Nothing waits for it: while a scaler fails or hangs, jobs are placed on what
// there is. What it drains says so in the reason, and is known by it after a restart.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/metrics/metric_families.h"
#include "common/os/loop_thread.h"
#include "controller/autoscale/scaler.h"
#include "controller/engine/engine.h"
#include "controller/policy/autoscale/scale_demand.h"

namespace muster::controller {

class Autoscaler {
 public:
  // After a failure of a scaler the first wait, doubled each time up to the longest.
  static constexpr absl::Duration kFirstWait = absl::Seconds(2);
  static constexpr absl::Duration kLongestWait = absl::Minutes(2);
  // A scaler that does not know how many were asked for is asked for them again so often while
  // fewer are there: what has died since nobody else replaces.
  static constexpr absl::Duration kRepeat = absl::Minutes(1);

  struct Pool {
    PoolScaling scaling;
    std::unique_ptr<Scaler> scaler;
  };

  // All references outlive it. `every`: between two looks.
  Autoscaler(Engine& engine, Clock& clock, MetricFamilies& families, absl::Duration every,
             std::vector<Pool> pools);
  ~Autoscaler() { Stop(); }

  void Start() { thread_.Start(); }
  // Ends calls of scalers. Idempotent.
  void Stop();

  // One look at all pools; the time to the next. What the thread does; a test may, without Start.
  absl::Duration LookOnce() MUSTER_EXCLUDES(mutex_);

  // Of a job that waits: "2 workers of pool gpu are asked for, 1 is there", or why none come; for
  // each scaled pool of its. Thread-safe.
  std::vector<Blocker> Hints(const JobNeeds& needs) const MUSTER_EXCLUDES(mutex_);

  // Whether workers of a scaled pool, once there, could hold the job. Thread-safe.
  bool CouldCome(const JobNeeds& needs) const;

 private:
  struct State {
    PoolMemory memory;
    std::optional<uint32_t> scaler_says;               // when it was last asked
    std::optional<WorkerFacts> seen;                   // of the newest worker that came
    std::map<std::string, absl::Duration> idle_since;  // of the workers that are there
    int failures = 0;                                  // in a row
    absl::Duration wait_until = -absl::InfiniteDuration();
    absl::Duration repeat_at;  // since boot: the same number may be asked for again then
  };
  // What Hints tells.
  struct Shown {
    uint32_t wanted = 0;
    uint32_t there = 0;
    std::string trouble;  // empty: the scaler has done as it was told
    bool distrusted = false;
  };

  // Whether workers that are there may still be unknown: their agents have not come back since the
  // start, or a restored controller waits for a person.
  bool MayBeBlind() const;
  PoolSight See(const Snapshot& snapshot, const PoolScaling& scaling, State& state) const;
  void Look(Pool& pool, State& state, PoolSight sight);
  void Drain(const PoolScaling& scaling, const std::string& worker, bool drained);
  void ForgetThoseGone(const Snapshot& snapshot);
  void NoteOutcome(const PoolScaling& scaling, State& state, const Scaler& scaler,
                   const absl::Status& status) MUSTER_EXCLUDES(mutex_);
  void Post(Event event);

  Engine& engine_;
  Clock& clock_;
  MetricFamilies& families_;
  const absl::Duration every_;
  const absl::Duration started_at_;  // since boot
  std::vector<Pool> pools_;
  std::vector<State> states_;  // as pools_
  mutable Mutex mutex_;
  std::map<std::string, Shown> shown_ MUSTER_GUARDED_BY(mutex_);  // by pool
  LoopThread thread_;
};

}  // namespace muster::controller
