// Reads of metric points in metrics.db, each a short bounded page. Called by MetricsStore on its
// owner's thread.
#pragma once

#include "absl/status/statusor.h"
#include "controller/model/metrics_types.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

// Contract as MetricsStore::ReadPoints.
absl::StatusOr<PointPage> ReadPointPage(SqliteDatabase& db, const PointQuery& query);

}  // namespace muster::controller
