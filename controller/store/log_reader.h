// Reads of rank logs in metrics.db, each a short bounded page. Called by MetricsStore on its
// owner's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/model/metrics_types.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

struct LogPage {
  LogCursor after;
  int64_t newest_id = 0;
  uint64_t max_bytes = 0;  // of text; one chunk is given in any case
};

// Contracts as MetricsStore's ReadLogs, FollowLogs, NewestLogId and FindLogTails.
absl::StatusOr<std::vector<StoredLogChunk>> ReadLogBacklog(SqliteDatabase& db,
                                                           const LogQuery& query,
                                                           const LogPage& page);
absl::StatusOr<std::vector<StoredLogChunk>> ReadLogArrivals(SqliteDatabase& db,
                                                            const LogQuery& query, int64_t after_id,
                                                            uint64_t max_bytes);
absl::StatusOr<int64_t> ReadNewestLogId(SqliteDatabase& db);
absl::StatusOr<std::vector<LogTail>> ReadLogTails(SqliteDatabase& db, const LogQuery& query,
                                                  uint32_t lines);

}  // namespace muster::controller
