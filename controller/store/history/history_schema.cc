#include "controller/store/history/history_schema.h"

namespace muster::controller {

std::vector<std::string> HistoryMigrations() {
  return {R"sql(
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  project TEXT NOT NULL,
  owner TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  checkpoint_root TEXT NOT NULL,
  spec_json TEXT NOT NULL,
  spec BLOB NOT NULL,
  written_spec BLOB NOT NULL,
  settings TEXT NOT NULL,
  array_id INTEGER NOT NULL,
  array_index INTEGER NOT NULL,
  array_at_a_time INTEGER NOT NULL,
  folder_tag TEXT NOT NULL,
  held INTEGER NOT NULL,
  suspending INTEGER NOT NULL,
  requeue_id TEXT NOT NULL,
  requeued_after INTEGER NOT NULL,
  state INTEGER NOT NULL,
  reason INTEGER NOT NULL,
  message TEXT NOT NULL,
  submitted_ms INTEGER,
  started_ms INTEGER,
  finished_ms INTEGER,
  attempt INTEGER NOT NULL,
  restarts INTEGER NOT NULL,
  restarts_in_row INTEGER NOT NULL,
  failure_class INTEGER NOT NULL,
  phase TEXT NOT NULL,
  step INTEGER NOT NULL,
  total_steps INTEGER NOT NULL,
  epoch REAL NOT NULL,
  memory_bytes REAL NOT NULL,
  memory_peak_bytes REAL NOT NULL,
  best_validation_accuracy REAL NOT NULL,
  latest TEXT NOT NULL,
  results TEXT NOT NULL,
  charged TEXT NOT NULL,
  ledger TEXT NOT NULL
) STRICT;
CREATE INDEX jobs_by_name ON jobs (name, id);
CREATE INDEX jobs_by_key ON jobs (owner, idempotency_key) WHERE idempotency_key <> '';

-- What a job is looked for by, in few bytes: walks over many jobs read these rows alone.
CREATE TABLE job_index (
  id INTEGER PRIMARY KEY REFERENCES jobs (id),
  array_id INTEGER NOT NULL,
  finished_at_ns INTEGER NOT NULL,
  finished_ms INTEGER,
  state INTEGER NOT NULL,
  project TEXT NOT NULL,
  is_restorable INTEGER NOT NULL,  -- it has a checkpoint that can be restored
  -- When it, or the last task of its array, finished. NULL: it is not to be forgotten, since a
  -- checkpoint of theirs may be on a disk.
  forgettable_from_ns INTEGER
) STRICT;
CREATE INDEX job_index_by_array ON job_index (array_id, id) WHERE array_id <> 0;
CREATE INDEX job_index_by_end ON job_index (forgettable_from_ns, array_id, id)
  WHERE forgettable_from_ns IS NOT NULL;

-- One row: which jobs there had been when the file was made.
CREATE TABLE beginning (
  after_job INTEGER NOT NULL,
  at_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE attempts (
  job_id INTEGER NOT NULL REFERENCES jobs (id),
  number INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  term INTEGER NOT NULL,
  started_ms INTEGER,
  ended_ms INTEGER,
  failure_class INTEGER NOT NULL,
  cause TEXT NOT NULL,
  reason INTEGER NOT NULL,
  reached_running INTEGER NOT NULL,
  save_requested INTEGER NOT NULL,
  first_step INTEGER NOT NULL,
  last_step INTEGER NOT NULL,
  resume TEXT NOT NULL,
  yielded_to INTEGER NOT NULL,
  failed_rank INTEGER NOT NULL,
  stake_slot_seconds INTEGER NOT NULL,
  lost_slot_seconds INTEGER NOT NULL,
  missing INTEGER NOT NULL,
  held_from_ns INTEGER,
  held_until_ns INTEGER,
  PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE ranks (
  job_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  worker TEXT NOT NULL,
  incarnation BLOB NOT NULL,
  slots TEXT NOT NULL,
  local_rank INTEGER NOT NULL,
  state INTEGER NOT NULL,
  succeeded INTEGER NOT NULL,
  holds_slots INTEGER NOT NULL,
  exit_code INTEGER NOT NULL,
  signal INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  last_step INTEGER NOT NULL,
  held_from_ns INTEGER,
  held_until_ns INTEGER,
  PRIMARY KEY (job_id, attempt, rank),
  FOREIGN KEY (job_id, attempt) REFERENCES attempts (job_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
  id INTEGER PRIMARY KEY,
  job_id INTEGER NOT NULL REFERENCES jobs (id),
  step INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  state INTEGER NOT NULL,
  path TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  manifest_sha256 TEXT NOT NULL,
  best INTEGER NOT NULL,
  epoch REAL NOT NULL,
  metrics TEXT NOT NULL,
  created_ms INTEGER,
  verified_ms INTEGER,
  verdicts INTEGER NOT NULL,
  message TEXT NOT NULL,
  created_at_ns INTEGER,
  doubt_worker TEXT,
  doubt_message TEXT NOT NULL,
  doubt_missing INTEGER NOT NULL
) STRICT;
CREATE INDEX checkpoints_by_job ON checkpoints (job_id);

CREATE TABLE events (
  sequence INTEGER PRIMARY KEY,
  job_id INTEGER NOT NULL,
  time_ms INTEGER,
  from_state INTEGER NOT NULL,
  to_state INTEGER NOT NULL,
  reason INTEGER NOT NULL,
  actor TEXT NOT NULL,
  message TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  at_ns INTEGER
) STRICT;
CREATE INDEX events_by_job ON events (job_id, sequence);
)sql",
          R"sql(
-- The jobs of a project and name that have a checkpoint which can be restored.
CREATE TABLE savers (
  project TEXT NOT NULL,
  name TEXT NOT NULL,
  job_id INTEGER NOT NULL REFERENCES jobs (id),
  PRIMARY KEY (project, name, job_id)
) STRICT, WITHOUT ROWID;
INSERT INTO savers (project, name, job_id)
  SELECT jobs.project, jobs.name, jobs.id FROM jobs JOIN job_index ON job_index.id = jobs.id
  WHERE is_restorable;
CREATE INDEX savers_by_job ON savers (job_id);

-- Which checkpoints a job was submitted to begin from. Their job is kept for it.
CREATE TABLE begun_from (
  checkpoint_id INTEGER NOT NULL,
  job_id INTEGER NOT NULL REFERENCES jobs (id),
  PRIMARY KEY (checkpoint_id, job_id)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO begun_from (checkpoint_id, job_id)
  SELECT value, jobs.id FROM jobs, json_each(jobs.settings, '$.resume_from');
CREATE INDEX begun_from_by_job ON begun_from (job_id);

-- NULL now also while an archived job has begun from one of them.
UPDATE job_index SET forgettable_from_ns = NULL WHERE CASE array_id WHEN 0 THEN id ELSE array_id END IN (
  SELECT CASE array_id WHEN 0 THEN job_index.id ELSE array_id END
  FROM begun_from JOIN checkpoints ON checkpoints.id = begun_from.checkpoint_id
  JOIN job_index ON job_index.id = checkpoints.job_id);
ALTER TABLE job_index DROP COLUMN is_restorable;

-- One row: how many times jobs were put here.
CREATE TABLE puts (number INTEGER NOT NULL) STRICT;
INSERT INTO puts (number) VALUES (0);
)sql",
          R"sql(
ALTER TABLE checkpoints ADD COLUMN pinned_by TEXT NOT NULL DEFAULT '';
ALTER TABLE checkpoints ADD COLUMN removed_by TEXT NOT NULL DEFAULT '';
)sql"};
}

}  // namespace muster::controller
