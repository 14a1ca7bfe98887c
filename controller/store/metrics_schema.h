// The tables of metrics.db, as migrations, and the dictionary of metric names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
};

// The id of a metric name; 0 when it is new and there are already `max_names`.
absl::StatusOr<uint64_t> FindOrAddName(SqliteDatabase& db, const std::string& name,
                                       size_t max_names);

}  // namespace muster::controller
