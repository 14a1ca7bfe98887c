// One page of a job's logs, read from metrics.db in turns. Turned by MetricsStore on its owner's
// thread; between two turns the owner does other things.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/model/types/metrics_types.h"
#include "controller/store/metrics/log_tails.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

class LogReading {
 public:
  // Of text. A page of what is stored ends with the chunk that reaches this, one of a query that
  // follows before it.
  static constexpr uint64_t kPageBytes = 256 << 10;

  LogReading(LogQuery query, LogPosition position, uint64_t page_bytes = kPageBytes)
      : query_(query), page_bytes_(page_bytes), page_{{}, std::move(position)} {}

  // Reads on for one turn. True: the page is whole. An empty one: there is nothing more; of a query
  // that follows, not yet.
  absl::StatusOr<bool> Turn(SqliteDatabase& db);

  LogPage TakePage() { return std::move(page_); }

 private:
  // True: where to begin is known.
  absl::StatusOr<bool> Begin(SqliteDatabase& db);
  // True: the page is whole.
  absl::StatusOr<bool> ReadStored(SqliteDatabase& db);
  absl::Status ReadArrived(SqliteDatabase& db);
  absl::Status Collect(SqliteStatement& chunks);

  const LogQuery query_;
  const uint64_t page_bytes_;
  std::optional<TailSearch> search_;
  LogPage page_;
};

}  // namespace muster::controller
