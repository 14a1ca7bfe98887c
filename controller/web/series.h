// musterd's Prometheus series, counted anew from the snapshot at each scrape: so they can never
// drift from what the controller knows, and series of what is gone go away by themselves.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/metrics/metric_families.h"
#include "controller/engine/engine.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/ledger_types.h"
#include "controller/model/types/metrics_types.h"
#include "controller/web/checkpoint_age.h"

namespace muster::controller {

// Of the backups that musterd makes by itself.
struct BackupTimes {
  absl::Time newest = absl::UnixEpoch();  // when the newest whole one was finished; epoch: none
  absl::Duration every;                   // zero: only when asked
};

// What the snapshot does not hold.
struct SeriesInputs {
  absl::Time now;               // ledger time
  absl::Duration series_grace;  // a finished job's series stay this long
  absl::Time started;           // of this controller
  bool insecure = false;
  bool held = false;  // restored from a backup, and not let go on yet
  IngestCounts ingest;
  EngineStats engine;
  std::map<std::string, uint64_t> database_bytes;  // by name: state, history, metrics
  uint64_t resident_bytes = 0;
  std::map<std::string, uint64_t> closed_connections = {};   // by port: people, workers, http
  std::optional<BackupTimes> backups = std::nullopt;         // nullopt: none are made
  std::optional<absl::Time> certificate_end = std::nullopt;  // of musterd's; nullopt: no TLS
  CheckpointRules* checkpoint_rules = nullptr;  // null: the age of checkpoints is not shown
};

// Jobs with series of their own, by what they do: so that those that run never lose theirs to those
// that wait. Of the others the newest have some.
inline constexpr size_t kMaxRunningJobsShown = 16'384;
inline constexpr size_t kMaxWaitingJobsShown = 1024;
inline constexpr size_t kMaxEndedJobsShown = 2048;  // within their grace
// What a job reports under names of its own: so many of them, by name, of such a length; and of all
// jobs together.
inline constexpr size_t kMaxOwnMetrics = 32;
inline constexpr size_t kMaxOwnMetricBytes = 64;
inline constexpr size_t kMaxOwnMetricsOfAll = 32'768;

// So many series of one metric are shown, and others are refused: a job's slot-time by its label
// has the most series.
inline constexpr size_t kMaxControllerSeries =
    kTimeLabelCount * (kMaxRunningJobsShown + kMaxWaitingJobsShown + kMaxEndedJobsShown);

// Every series that comes from the snapshot or the inputs. `families` counts what is refused.
std::vector<prometheus::MetricFamily> CollectSeries(const Snapshot& snapshot,
                                                    const SeriesInputs& inputs,
                                                    MetricFamilies& families);

}  // namespace muster::controller
