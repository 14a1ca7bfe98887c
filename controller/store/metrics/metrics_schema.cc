#include "controller/store/metrics/metrics_schema.h"

#include "common/base/status_macros.h"

namespace muster::controller {

const std::vector<std::string> kMetricsMigrations = {
    R"sql(
CREATE TABLE metric_names(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE jobs_with_rows(job INTEGER PRIMARY KEY) STRICT;

CREATE TABLE job_names(
  job INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  name_id INTEGER NOT NULL,
  PRIMARY KEY(job, rank, name_id)
) STRICT, WITHOUT ROWID;

-- Many points of one rank in one row; point_codec.h says how they are packed.
CREATE TABLE points(
  id INTEGER PRIMARY KEY,
  job INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  min_step INTEGER NOT NULL,
  max_step INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  count INTEGER NOT NULL,
  packed BLOB NOT NULL
) STRICT;
CREATE INDEX points_by_step ON points(job, rank, attempt, generation, min_step, id, max_step);

-- How far a rank's records have been taken in, and the first step that it reported (null: none yet).
CREATE TABLE rank_marks(
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  first_step INTEGER,
  PRIMARY KEY(job, attempt, generation, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE logs(
  id INTEGER PRIMARY KEY,
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  is_stderr INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  text BLOB NOT NULL
) STRICT;
CREATE INDEX logs_by_attempt ON logs(job, attempt, id, rank);
CREATE INDEX logs_by_arrival ON logs(job, id, attempt, rank);

CREATE TABLE log_marks(
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  is_stderr INTEGER NOT NULL,
  next_offset INTEGER NOT NULL,
  PRIMARY KEY(job, attempt, generation, rank, is_stderr)
) STRICT, WITHOUT ROWID;

-- What never came. kind 0: metric records first..last; 1, 2: bytes first..last of stdout, stderr; 3: `last` bytes of
-- either stream, as the agent said when its spool was full; 4, 5: bytes 0..last of stdout, stderr, dropped because the
-- job wrote more than is kept of one job.
CREATE TABLE gaps(
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  PRIMARY KEY(job, attempt, generation, rank, kind, first, last)
) STRICT, WITHOUT ROWID;
)sql",
    R"sql(
-- gaps, kind 6: records up to `last`, dropped because the job reported more than is kept of one job.
CREATE INDEX points_by_arrival ON points(job, id);
)sql",
    R"sql(
-- Each job of which anything is here; without rows it has marks and gaps only.
ALTER TABLE jobs_with_rows RENAME TO known_jobs;
ALTER TABLE known_jobs ADD COLUMN has_rows INTEGER NOT NULL DEFAULT 1;
INSERT OR IGNORE INTO known_jobs(job, has_rows)
  SELECT job, 0 FROM rank_marks UNION SELECT job, 0 FROM log_marks UNION SELECT job, 0 FROM gaps;
)sql",
    R"sql(
-- points/rollup.h says what is in it. last_row: the newest row of points that it covers.
CREATE TABLE rollups(
  id INTEGER PRIMARY KEY,
  job INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  level INTEGER NOT NULL,
  min_step INTEGER NOT NULL,
  max_step INTEGER NOT NULL,
  last_row INTEGER NOT NULL,
  packed BLOB NOT NULL
) STRICT;
CREATE INDEX rollups_by_step
  ON rollups(job, rank, attempt, generation, level, min_step, id, max_step, last_row);
CREATE INDEX rollups_by_age ON rollups(job, level, id);
)sql",
    R"sql(
-- When a chunk was written, Unix milliseconds; 0: unknown. In no index: making one anew would take a large database minutes
-- at its first start.
ALTER TABLE logs ADD COLUMN written_ms INTEGER NOT NULL DEFAULT 0;
)sql"};

absl::Status RecordDropped(SqliteDatabase& db, const Dropped& dropped) {
  SqliteStatement old = db.Prepare(
      "DELETE FROM gaps WHERE job = ? AND attempt = ? AND generation = ? AND rank = ?"
      " AND kind = ?");
  old.Bind(dropped.job_id).Bind(dropped.attempt).Bind(dropped.generation);
  old.Bind(dropped.rank).Bind(dropped.kind);
  MUSTER_RETURN_IF_ERROR(old.Run());
  SqliteStatement insert = db.Prepare(
      "INSERT INTO gaps(job, attempt, generation, rank, kind, first, last)"
      " VALUES(?, ?, ?, ?, ?, 0, ?)");
  insert.Bind(dropped.job_id).Bind(dropped.attempt).Bind(dropped.generation);
  insert.Bind(dropped.rank).Bind(dropped.kind).Bind(dropped.last);
  return insert.Run();
}

absl::StatusOr<uint64_t> FindOrAddName(SqliteDatabase& db, const std::string& name,
                                       size_t max_names) {
  SqliteStatement select = db.Prepare("SELECT id FROM metric_names WHERE name = ?");
  select.Bind(name);
  MUSTER_ASSIGN_OR_RETURN(const bool known, select.Step());
  if (known) return select.Int(0);
  SqliteStatement insert = db.Prepare(
      "INSERT INTO metric_names(name) SELECT ?1 WHERE (SELECT count(*) FROM "
      "metric_names) < ?2 RETURNING id");
  insert.Bind(name);
  insert.Bind(max_names);
  MUSTER_ASSIGN_OR_RETURN(const bool added, insert.Step());
  return added ? insert.Int(0) : 0;
}

absl::Status RemoveUnusedNames(SqliteDatabase& db) {
  return db.Prepare("DELETE FROM metric_names WHERE id NOT IN (SELECT name_id FROM job_names)")
      .Run();
}

}  // namespace muster::controller
