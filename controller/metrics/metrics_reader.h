// Questions about what metrics.db holds of a job, as the API asks them. MetricsIngest answers.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "controller/model/types/metrics_types.h"

namespace muster::controller {

// Thread-safe. `done` runs exactly once: on the ingest's thread, where it must be quick and must
// not block, or before the return. RESOURCE_EXHAUSTED: too many ask; UNAVAILABLE: stopping; else as
// SqliteDatabase.
class MetricsReader {
 public:
  virtual ~MetricsReader() = default;

  // One page of points. INVALID_ARGUMENT: a page token that is not ours.
  using PointsDone = std::function<void(absl::StatusOr<PointPage>)>;
  virtual void ReadPoints(PointQuery query, PointsDone done) = 0;

  // The page of logs after `position`, which is a new one at first. An empty one: there is nothing
  // more; of a query that follows, not yet.
  using LogsDone = std::function<void(absl::StatusOr<LogPage>)>;
  virtual void ReadLogs(LogQuery query, LogPosition position, LogsDone done) = 0;
};

}  // namespace muster::controller
