// One SQLite database with exactly one connection: opened exclusively, WAL, synchronous=FULL. For
// controller/store and access alone; nothing else has sqlite3.
//
// Not thread-safe: one thread at a time. Status codes of every call:
// - RESOURCE_EXHAUSTED: the disk, the quota or max_bytes is full. The transaction is rolled back,
//   and the database is good.
// - FAILED_PRECONDITION: it is not opened: another process holds the file, it lies on a network
//   file system, or a newer Muster wrote it.
// - UNKNOWN: I/O or an fsync failed, so that what is on disk is not known; DATA_LOSS: it is no
//   database, or corrupt; INTERNAL: a statement of ours is wrong. What state.db was to hold is not
//   known then: exit, and recover from the disk.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::controller {

class SqliteCopy;

// What SQLite answered about the file, as one of the codes above. `db` may be null.
absl::Status SqliteStatus(sqlite3* db, int code, const std::string& path);

struct SqliteOptions {
  std::string path;
  uint64_t max_bytes = 0;            // of the database; 0: no bound
  uint64_t max_log_bytes = 8 << 20;  // the log is moved into the database once it holds more
  // The door to the disk, by the name under which it was registered with SQLite; empty: the
  // system's own. The simulator brings a disk that loses power.
  std::string vfs;
};

// A prepared statement in use: bind, step, read columns; resets itself when it goes. Strings are
// copied at the bind.
class SqliteStatement {
 public:
  SqliteStatement(sqlite3* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}
  SqliteStatement(SqliteStatement&& other) noexcept;
  SqliteStatement& operator=(SqliteStatement&&) = delete;
  ~SqliteStatement();

  // Binds the next parameter, from left to right.
  SqliteStatement& Bind(int64_t value);
  SqliteStatement& Bind(uint64_t value) { return Bind(static_cast<int64_t>(value)); }
  SqliteStatement& Bind(int32_t value) { return Bind(static_cast<int64_t>(value)); }
  SqliteStatement& Bind(uint32_t value) { return Bind(static_cast<int64_t>(value)); }
  SqliteStatement& Bind(bool value) { return Bind(static_cast<int64_t>(value ? 1 : 0)); }
  SqliteStatement& Bind(double value);
  SqliteStatement& Bind(absl::string_view text);
  SqliteStatement& Bind(const char* text) { return Bind(absl::string_view(text)); }
  SqliteStatement& Bind(const std::string& text) { return Bind(absl::string_view(text)); }
  SqliteStatement& BindBlob(absl::string_view bytes);
  SqliteStatement& BindNull();

  // True: a row is there. False: no more rows.
  absl::StatusOr<bool> Step();
  // For statements without rows.
  absl::Status Run();

  // Columns of the current row, 0-based.
  int64_t Int(int column) const;
  double Double(int column) const;
  std::string Text(int column) const;  // also blobs
  bool IsNull(int column) const;

 private:
  sqlite3* db_;
  sqlite3_stmt* statement_;
  int next_parameter_ = 1;
};

class SqliteDatabase {
 public:
  // Opens or makes the file and applies the migrations that it lacks, each in its own transaction:
  // migrations[i] brings version i to i + 1, and never changes once released. May take up to a few
  // seconds after a crash (WAL recovery).
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(
      const SqliteOptions& options, const std::vector<std::string>& migrations);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // Statements are prepared once and kept by their text: pass literals, never text with values in
  // it. A statement must not be used twice at the same time.
  SqliteStatement Prepare(const char* sql);

  absl::Status Begin();
  absl::Status Commit();  // on failure the transaction is rolled back
  void Rollback();

  // Moves the WAL's content into the database when it is more than `wal_bytes`. The file keeps its
  // size and is written over from its start: an fsync of blocks that exist takes half as long as
  // one of a file that grows. A full disk is no error here: the next call tries again.
  absl::Status CheckpointAbove(uint64_t wal_bytes);
  absl::Status CheckpointWhenLarge() { return CheckpointAbove(options_.max_log_bytes); }

  // Bound of the database from now on; 0: none.
  absl::Status SetMaxBytes(uint64_t max_bytes);

  // PRAGMA integrity_check; DATA_LOSS with the first fault.
  absl::Status CheckIntegrity();

  // Copies the database to a new file, between transactions (store/backup/sqlite_copy.h). One copy
  // at a time: a second one takes the first one's place. StepCopy: true when it is whole;
  // FAILED_PRECONDITION: none was begun.
  absl::Status BeginCopy(const std::string& path);
  absl::StatusOr<bool> StepCopy();

  const std::string& path() const { return options_.path; }

 private:
  SqliteDatabase(SqliteOptions options, sqlite3* db);
  absl::Status Configure();
  // Moves what a former process left in the log into the database, durably, before anything builds
  // on it: that process may have died of a failed fsync, after which the kernel calls the pages
  // clean, and what we read of the log would never reach the disk.
  absl::Status SettleLog();
  absl::Status Migrate(const std::vector<std::string>& migrations);
  absl::Status Execute(const std::string& sql);  // no values from outside
  absl::StatusOr<int64_t> PageBytes();

  SqliteOptions options_;
  sqlite3* db_;
  std::map<std::string, sqlite3_stmt*> statements_;
  std::unordered_map<const char*, sqlite3_stmt*> by_address_;  // the same, by the literal's address
  int64_t page_bytes_ = 0;                                     // 0: not asked yet
  uint64_t log_pages_ = 0;  // in the WAL since it was last moved into the database
  std::unique_ptr<SqliteCopy> copy_;
};

}  // namespace muster::controller
