// The tables of metrics.db, as migrations, and the dictionary of metric names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

// Entry i brings version i to i + 1. Never changed once released; only appended to.
extern const std::vector<std::string> kMetricsMigrations;

// Of the table `gaps`.
enum GapKind {
  kMetricGap = 0,
  kStdoutGap = 1,
  kStderrGap = 2,
  kSpoolLogGap = 3,
  kStdoutDropped = 4,
  kStderrDropped = 5,
  kPointsDropped = 6,
};

// How far a job's budget has removed a rank's oldest logs or points: everything up to and with
// `last` is gone. `last` is an offset in bytes for a stream of logs, the number of a record for
// points.
struct Dropped {
  uint64_t job_id = 0;
  int64_t attempt = 0;
  int64_t generation = 0;
  int64_t rank = 0;
  int64_t kind = 0;  // GapKind
  int64_t last = 0;
};
// Stores it in the table `gaps`, in place of what was stored there of the same rank and kind.
absl::Status RecordDropped(SqliteDatabase& db, const Dropped& dropped);

// The id of a metric name; 0 when it is new and there are already `max_names`.
absl::StatusOr<uint64_t> FindOrAddName(SqliteDatabase& db, const std::string& name,
                                       size_t max_names);
// Those that no job has.
absl::Status RemoveUnusedNames(SqliteDatabase& db);

}  // namespace muster::controller
