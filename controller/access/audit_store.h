// The record of changes and denials in access.db: rows are only ever put at its end, and dropped
// from its beginning when it grows too large. One thread at a time; status codes are those of
// store/sqlite.h, and what is named.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/access/audit_types.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

// How far a walk over all rows has come.
struct AuditWalk {
  bool began = false;
  bool done = false;
  AuditVerdict verdict;
};

class AuditStore {
 public:
  // So many rows a step of a walk looks at, and so many are dropped at once.
  static constexpr int kStep = 2000;

  // The database outlives the store. `max_bytes`: of the rows, about.
  AuditStore(SqliteDatabase& db, uint64_t max_bytes) : db_(db), max_bytes_(max_bytes) {}

  // Finds both ends. Before everything else.
  absl::Status Load();

  // Puts the row at the end, in the caller's transaction; Settle tells how that ended.
  absl::Status Append(const AuditEntry& entry);
  void Settle(bool committed);
  // Drops the oldest rows, a step at most, when there is too much; in a transaction of its own.
  absl::Status Trim();

  absl::StatusOr<AuditPage> Read(const AuditQuery& query);

  // Goes on with a walk over all rows up to the newest. DATA_LOSS names the first row that is
  // wrong. `known`: a row that was told before; number 0: none. NOT_FOUND: that was dropped since.
  absl::Status Verify(const AuditPoint& known, AuditWalk& walk);

  const AuditPoint& end() const { return end_; }

 private:
  // Of what is not among the rows.
  absl::Status CheckKnown(const AuditPoint& known) const;
  static AuditRow RowOf(const SqliteStatement& statement);

  SqliteDatabase& db_;
  const uint64_t max_bytes_;
  AuditPoint begin_;  // the last row that was dropped
  AuditPoint end_;
  uint64_t bytes_ = 0;  // of the rows
  // As of the last commit.
  AuditPoint committed_end_;
  uint64_t committed_bytes_ = 0;
};

}  // namespace muster::controller
