#include "controller/store/state_schema.h"

namespace muster::controller {

std::vector<std::string> StateMigrations() {
  // Times are Unix milliseconds of the wall clock; NULL: never. Maps and lists are JSON text.
  return {R"sql(
CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT;

CREATE TABLE jobs (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  project TEXT NOT NULL,
  owner TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  priority INTEGER NOT NULL,
  min_ranks INTEGER NOT NULL,
  max_ranks INTEGER NOT NULL,
  slot_kind INTEGER NOT NULL,
  pool TEXT NOT NULL,
  selector TEXT NOT NULL,
  wait_for_capacity INTEGER NOT NULL,
  max_restarts INTEGER NOT NULL,
  backoff_ms INTEGER NOT NULL,
  max_backoff_ms INTEGER NOT NULL,
  progress_timeout_ms INTEGER,
  keep_last INTEGER NOT NULL,
  checkpoint_root TEXT NOT NULL,
  spec_json TEXT NOT NULL,
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
  results TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX jobs_by_idempotency_key ON jobs (owner, idempotency_key) WHERE idempotency_key <> '';

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
  PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE ranks (
  job_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  worker TEXT NOT NULL,
  incarnation BLOB NOT NULL,
  slot INTEGER NOT NULL,
  local_rank INTEGER NOT NULL,
  state INTEGER NOT NULL,
  succeeded INTEGER NOT NULL,
  holds_slot INTEGER NOT NULL,
  exit_code INTEGER NOT NULL,
  signal INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  last_step INTEGER NOT NULL,
  PRIMARY KEY (job_id, attempt, rank),
  FOREIGN KEY (job_id, attempt) REFERENCES attempts (job_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  incarnation BLOB NOT NULL,
  past_incarnations TEXT NOT NULL,
  version TEXT NOT NULL,
  pool TEXT NOT NULL,
  labels TEXT NOT NULL,
  slots TEXT NOT NULL,
  cpus INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL,
  advertise_address TEXT NOT NULL,
  metrics_address TEXT NOT NULL,
  lost INTEGER NOT NULL,
  draining INTEGER NOT NULL,
  last_heartbeat_ms INTEGER,
  event_seq INTEGER NOT NULL,
  event_seq_known INTEGER NOT NULL
) STRICT;

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
  message TEXT NOT NULL
) STRICT;

-- Append-only and gapless; replaying it gives each job's state.
CREATE TABLE events (
  sequence INTEGER PRIMARY KEY,
  job_id INTEGER NOT NULL,
  time_ms INTEGER,
  from_state INTEGER NOT NULL,
  to_state INTEGER NOT NULL,
  reason INTEGER NOT NULL,
  actor TEXT NOT NULL,
  message TEXT NOT NULL,
  attempt INTEGER NOT NULL
) STRICT;

CREATE TABLE outbox (
  seq INTEGER PRIMARY KEY,
  worker TEXT NOT NULL,
  incarnation BLOB NOT NULL,
  kind INTEGER NOT NULL,
  job_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  term INTEGER NOT NULL,
  mode INTEGER NOT NULL,
  grace_ms INTEGER NOT NULL,
  reason TEXT NOT NULL,
  checkpoint_id INTEGER NOT NULL
) STRICT;
)sql",
          // Policies grew: what the core takes from a spec is one JSON text, a rank has several
          // slots, jobs can be held, suspended and members of an array, workers be cordoned.
          R"sql(
ALTER TABLE jobs ADD COLUMN settings TEXT NOT NULL DEFAULT '{}';
ALTER TABLE jobs ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN suspending INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN array_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN array_index INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN array_at_a_time INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET settings = json_object(
  'name', name, 'project', project, 'priority', priority, 'keep_last', keep_last,
  'needs', json_object('min_ranks', min_ranks, 'max_ranks', max_ranks, 'slot_kind', slot_kind,
    'pools', json_array(json_array(pool, 0)), 'selector', json(selector),
    'wait_for_capacity', json(iif(wait_for_capacity, 'true', 'false'))),
  'restart', json_object('max_restarts', max_restarts, 'backoff', backoff_ms,
    'max_backoff', max_backoff_ms, 'progress_timeout', progress_timeout_ms));
ALTER TABLE jobs DROP COLUMN priority;
ALTER TABLE jobs DROP COLUMN min_ranks;
ALTER TABLE jobs DROP COLUMN max_ranks;
ALTER TABLE jobs DROP COLUMN slot_kind;
ALTER TABLE jobs DROP COLUMN pool;
ALTER TABLE jobs DROP COLUMN selector;
ALTER TABLE jobs DROP COLUMN wait_for_capacity;
ALTER TABLE jobs DROP COLUMN max_restarts;
ALTER TABLE jobs DROP COLUMN backoff_ms;
ALTER TABLE jobs DROP COLUMN max_backoff_ms;
ALTER TABLE jobs DROP COLUMN progress_timeout_ms;
ALTER TABLE jobs DROP COLUMN keep_last;

ALTER TABLE ranks ADD COLUMN slots TEXT NOT NULL DEFAULT '[]';
UPDATE ranks SET slots = json_array(slot);
ALTER TABLE ranks DROP COLUMN slot;
ALTER TABLE ranks RENAME COLUMN holds_slot TO holds_slots;

ALTER TABLE workers ADD COLUMN cordoned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN cordon_reason TEXT NOT NULL DEFAULT '';
)sql",
          // Shares and bounds of projects. Quotas are JSON text.
          R"sql(
CREATE TABLE projects (
  name TEXT PRIMARY KEY,
  weight REAL NOT NULL,
  quotas TEXT NOT NULL,
  used_slot_seconds REAL NOT NULL,
  used_at_ms INTEGER
) STRICT, WITHOUT ROWID;
)sql",
          // Restarts are charged by class of failure, and workers carry the evidence against them.
          R"sql(
ALTER TABLE jobs ADD COLUMN charged TEXT NOT NULL DEFAULT '[]';
ALTER TABLE workers ADD COLUMN strikes TEXT NOT NULL DEFAULT '[]';
ALTER TABLE workers ADD COLUMN quarantined_until_ms INTEGER;
ALTER TABLE workers ADD COLUMN quarantine_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN quarantines INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN paroled_ms INTEGER;
)sql",
          // A requeue is known again by its request, and starts the count of the run time anew.
          R"sql(
ALTER TABLE jobs ADD COLUMN requeue_id TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN requeued_after INTEGER NOT NULL DEFAULT 0;
)sql",
          // Who gets the slots of an attempt that made way.
          R"sql(
ALTER TABLE attempts ADD COLUMN yielded_to INTEGER NOT NULL DEFAULT 0;
)sql",
          // The ledger of slot-time, and when each rank held its slots. Nothing is known of what
          // older rows held: their ranks never did.
          R"sql(
ALTER TABLE jobs ADD COLUMN ledger TEXT NOT NULL DEFAULT '';
ALTER TABLE ranks ADD COLUMN held_from_ns INTEGER;
ALTER TABLE ranks ADD COLUMN held_until_ns INTEGER;
)sql",
          // Which workers run commands.
          R"sql(
ALTER TABLE workers ADD COLUMN allows_commands INTEGER NOT NULL DEFAULT 0;
)sql",
          // Whose end was the cause of an attempt's end.
          R"sql(
ALTER TABLE attempts ADD COLUMN failed_rank INTEGER NOT NULL DEFAULT -1;
)sql",
          // What it cost that an attempt made way.
          R"sql(
ALTER TABLE attempts ADD COLUMN stake_slot_seconds INTEGER NOT NULL DEFAULT -1;
ALTER TABLE attempts ADD COLUMN lost_slot_seconds INTEGER NOT NULL DEFAULT -1;
)sql",
          // What workers run container images by, with commas between.
          R"sql(
ALTER TABLE workers ADD COLUMN container_runtimes TEXT NOT NULL DEFAULT '';
)sql",
          // Whether what an attempt was to run was not there.
          R"sql(
ALTER TABLE attempts ADD COLUMN missing INTEGER NOT NULL DEFAULT 0;
)sql",
          // Jobs are found by their tags, which older rows have in the spec alone.
          R"sql(
UPDATE jobs SET settings = json_set(settings, '$.tags', json_extract(spec_json, '$.tags'))
  WHERE iif(json_valid(spec_json), json_type(spec_json, '$.tags'), NULL) = 'object';
)sql",
          // The resolved spec, packed; spec_json has it only of jobs of older versions.
          R"sql(
ALTER TABLE jobs ADD COLUMN spec BLOB NOT NULL DEFAULT x'';
)sql",
          // The spec as the client sent it, without the defaults.
          R"sql(
ALTER TABLE jobs ADD COLUMN written_spec BLOB NOT NULL DEFAULT x'';
)sql",
          // When an attempt began and ended in ledger time. Older rows have the wall clock's alone.
          R"sql(
ALTER TABLE attempts ADD COLUMN held_from_ns INTEGER;
ALTER TABLE attempts ADD COLUMN held_until_ns INTEGER;
)sql",
          // The data folder of the agent that holds a worker's name.
          R"sql(
ALTER TABLE workers ADD COLUMN identity BLOB NOT NULL DEFAULT x'';
)sql",
          // Checkpoint roots are known by the identity in their markers. What older jobs saved in
          // has none yet: a worker finds out.
          R"sql(
CREATE TABLE checkpoint_roots (
  path TEXT PRIMARY KEY,
  identity TEXT NOT NULL,
  found_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;
UPDATE jobs SET settings = json_set(settings, '$.needs.root', checkpoint_root)
  WHERE EXISTS (SELECT 1 FROM checkpoints WHERE checkpoints.job_id = jobs.id);
)sql",
          // Whose terms these are.
          R"sql(
CREATE TABLE controller (id BLOB NOT NULL) STRICT;
INSERT INTO controller (id) VALUES (randomblob(16));
)sql",
          // What tells a job's folder from those of other jobs of its number. Jobs that have run
          // go on in the folder that they have.
          R"sql(
ALTER TABLE jobs ADD COLUMN folder_tag TEXT NOT NULL DEFAULT '';
UPDATE jobs SET folder_tag = lower(hex(randomblob(6))) WHERE attempt = 0;
)sql",
          // When each event was in ledger time. Older rows have the wall clock's alone.
          R"sql(
ALTER TABLE events ADD COLUMN at_ns INTEGER;
)sql",
          // When each checkpoint was committed in ledger time. Likewise.
          R"sql(
ALTER TABLE checkpoints ADD COLUMN created_at_ns INTEGER;
)sql",
          // Jobs that ended long ago are forgotten, and the sequences of events have gaps since.
          // What is left of them, by project: how long they held slots, and waited.
          R"sql(
CREATE TABLE forgotten_time (
  project TEXT PRIMARY KEY,
  times TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX checkpoints_by_job ON checkpoints (job_id);
)sql",
          // The reading that speaks against a checkpoint until another worker has read it, too.
          R"sql(
ALTER TABLE checkpoints ADD COLUMN doubt_worker TEXT;
ALTER TABLE checkpoints ADD COLUMN doubt_message TEXT NOT NULL DEFAULT '';
ALTER TABLE checkpoints ADD COLUMN doubt_missing INTEGER NOT NULL DEFAULT 0;
)sql",
          // Who pinned a checkpoint, and who asked that it be deleted.
          R"sql(
ALTER TABLE checkpoints ADD COLUMN pinned_by TEXT NOT NULL DEFAULT '';
ALTER TABLE checkpoints ADD COLUMN removed_by TEXT NOT NULL DEFAULT '';
)sql"};
}

}  // namespace muster::controller
