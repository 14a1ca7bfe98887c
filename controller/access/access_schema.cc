#include "controller/access/access_schema.h"

namespace muster::controller {

std::vector<std::string> AccessMigrations() {
  // Times are Unix milliseconds of the wall clock; NULL: never. Hashes are SHA-256 in hex.
  return {R"sql(
CREATE TABLE users (
  name TEXT PRIMARY KEY,
  created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE grants (
  user TEXT NOT NULL,
  project TEXT NOT NULL,
  role INTEGER NOT NULL,
  PRIMARY KEY (user, project)
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  user TEXT NOT NULL,
  name TEXT NOT NULL,
  hash TEXT NOT NULL UNIQUE,
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER,
  revoked_ms INTEGER,
  last_used_ms INTEGER
) STRICT;

CREATE TABLE audit (
  seq INTEGER PRIMARY KEY,
  time_ms INTEGER NOT NULL,
  user TEXT NOT NULL,
  token_name TEXT NOT NULL,
  method TEXT NOT NULL,
  project TEXT NOT NULL,
  object TEXT NOT NULL,
  outcome TEXT NOT NULL,
  count INTEGER NOT NULL,
  detail TEXT NOT NULL,
  hash TEXT NOT NULL
) STRICT;

-- The last row that was dropped to bound the size; none: no row ever was.
CREATE TABLE audit_begin (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  seq INTEGER NOT NULL,
  hash TEXT NOT NULL
) STRICT;

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'rows of the audit are never changed'); END;

CREATE TRIGGER audit_is_not_shortened BEFORE DELETE ON audit
WHEN OLD.seq > COALESCE((SELECT seq FROM audit_begin), 0)
BEGIN SELECT RAISE(ABORT, 'rows of the audit are dropped from its beginning alone'); END;
)sql",
          // Names of users who were removed, whose jobs are still under them.
          R"sql(
CREATE TABLE removed_users (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
)sql"};
}

}  // namespace muster::controller
