// musterd's Prometheus series, counted anew from the snapshot at each scrape: so they can never
// drift from what the controller knows, and series of what is gone go away by themselves.
#pragma once

#include <map>
#include <string>

#include "absl/time/time.h"
#include "common/metrics/registry.h"
#include "controller/engine/engine.h"
#include "controller/model/metrics_types.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

// What the snapshot does not hold.
struct SeriesInputs {
  absl::Time now;
  absl::Duration series_grace;  // a finished job's series stay this long
  absl::Time started;           // of this controller
  bool insecure = false;
  IngestCounts ingest;
  EngineStats engine;
  std::map<std::string, uint64_t> database_bytes;  // by name: state, metrics
  uint64_t resident_bytes = 0;
};

// Final states of jobs and how many there were of each.
using FinishedCounts = std::map<std::string, uint64_t>;
FinishedCounts CountFinished(const Snapshot& snapshot);

// Replaces every series that comes from the snapshot or the inputs. `finished_before`: those of
// earlier lives of the controller. Not thread-safe against itself: a scrape between two fills would
// see half.
void FillSeries(const Snapshot& snapshot, const SeriesInputs& inputs,
                const FinishedCounts& finished_before, Registry& registry);

}  // namespace muster::controller
