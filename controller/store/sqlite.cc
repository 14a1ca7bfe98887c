#include "controller/store/sqlite.h"

#include <errno.h>
#include <string.h>
#include <sys/statfs.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "controller/store/backup/sqlite_copy.h"

namespace muster::controller {
namespace {

// Bounds of what one statement may be or bring, far above what our own need.
constexpr int kMaxValueBytes = 64 << 20;
constexpr int kMaxSqlBytes = 1 << 20;
constexpr int kMaxColumns = 64;
constexpr int kMaxExpressionDepth = 64;

// f_type of file systems on which WAL's locks cannot be trusted (linux/magic.h and the file
// systems' own sources).
constexpr unsigned long kNetworkFileSystems[] = {
    0x6969,      // NFS
    0xff534d42,  // CIFS
    0xfe534d42,  // SMB2
    0x517b,      // SMB
    0x5346414f,  // AFS
    0x01021997,  // 9p
    0x00c36400,  // Ceph
    0x0bd00bd0,  // Lustre
    0x19830326,  // BeeGFS
    0x47504653,  // GPFS
};

std::string PathOf(sqlite3* db) {
  const char* name = sqlite3_db_filename(db, "main");
  return name == nullptr ? "database" : name;
}

absl::Status RefuseNetworkFileSystem(const std::string& path) {
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  struct statfs info;
  if (::statfs(folder.c_str(), &info) != 0) {
    return absl::NotFoundError(absl::StrCat(folder, ": ", strerror(errno)));
  }
  for (unsigned long type : kNetworkFileSystems) {
    if (static_cast<unsigned long>(info.f_type) == type) {
      return absl::FailedPreconditionError(
          absl::StrCat(folder,
                       ": lies on a network file system, where SQLite's log is not safe; choose a "
                       "folder on a local disk"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SqliteStatus(sqlite3* db, int code, const std::string& path) {
  const std::string what =
      absl::StrCat(path, ": ", db == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db));
  const int system_errno = db == nullptr ? 0 : sqlite3_system_errno(db);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  // Not after a failed fsync: what is on disk is unknown then, whatever the cause.
  const bool is_fsync = code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC;
  const bool no_room = (system_errno == ENOSPC || system_errno == EDQUOT) && !is_fsync &&
                       ((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN);
  switch (no_room ? SQLITE_FULL : code & 0xff) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(
          absl::StrCat("no room left for the controller's database in ", folder,
                       ": free some disk space there and try again; nothing was changed"));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::FailedPreconditionError(
          absl::StrCat(what, ": another process holds this database"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(absl::StrCat(what, ": restore it from a backup"));
    case SQLITE_IOERR:
      return absl::UnknownError(
          absl::StrCat(what, " (", strerror(system_errno), ", code ", code, ")"));
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return absl::PermissionDeniedError(absl::StrCat(what, " (", strerror(system_errno), ")"));
    default:
      return absl::InternalError(absl::StrCat(what, " (code ", code, ")"));
  }
}

SqliteStatement::SqliteStatement(SqliteStatement&& other) noexcept
    : db_(other.db_),
      statement_(std::exchange(other.statement_, nullptr)),
      next_parameter_(other.next_parameter_) {}

SqliteStatement::~SqliteStatement() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

SqliteStatement& SqliteStatement::Bind(int64_t value) {
  const int rc = sqlite3_bind_int64(statement_, next_parameter_++, value);
  MUSTER_CHECK(rc == SQLITE_OK, "a statement has fewer parameters than are bound");
  return *this;
}

SqliteStatement& SqliteStatement::Bind(double value) {
  const int rc = sqlite3_bind_double(statement_, next_parameter_++, value);
  MUSTER_CHECK(rc == SQLITE_OK, "a statement has fewer parameters than are bound");
  return *this;
}

SqliteStatement& SqliteStatement::Bind(absl::string_view text) {
  const int rc = sqlite3_bind_text64(statement_, next_parameter_++, text.empty() ? "" : text.data(),
                                     text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  // Longer than the limit of a value: what comes from outside is bounded far below.
  MUSTER_CHECK(rc == SQLITE_OK, "text does not fit in a database value");
  return *this;
}

SqliteStatement& SqliteStatement::BindBlob(absl::string_view bytes) {
  const int rc =
      sqlite3_bind_blob64(statement_, next_parameter_++, bytes.empty() ? "" : bytes.data(),
                          bytes.size(), SQLITE_TRANSIENT);
  MUSTER_CHECK(rc == SQLITE_OK, "a blob does not fit in a database value");
  return *this;
}

SqliteStatement& SqliteStatement::BindNull() {
  const int rc = sqlite3_bind_null(statement_, next_parameter_++);
  MUSTER_CHECK(rc == SQLITE_OK, "a statement has fewer parameters than are bound");
  return *this;
}

absl::StatusOr<bool> SqliteStatement::Step() {
  const int rc = sqlite3_step(statement_);
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  return SqliteStatus(db_, sqlite3_extended_errcode(db_), PathOf(db_));
}

absl::Status SqliteStatement::Run() {
  MUSTER_ASSIGN_OR_RETURN(const bool row, Step());
  MUSTER_CHECK(!row, "a statement without rows brought one");
  return absl::OkStatus();
}

int64_t SqliteStatement::Int(int column) const { return sqlite3_column_int64(statement_, column); }

double SqliteStatement::Double(int column) const {
  return sqlite3_column_double(statement_, column);
}

std::string SqliteStatement::Text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size);
}

bool SqliteStatement::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(
    const SqliteOptions& options, const std::vector<std::string>& migrations) {
  if (options.vfs.empty()) MUSTER_RETURN_IF_ERROR(RefuseNetworkFileSystem(options.path));
  sqlite3* db = nullptr;
  const int rc = sqlite3_open_v2(
      options.path.c_str(), &db,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      options.vfs.empty() ? nullptr : options.vfs.c_str());
  if (rc != SQLITE_OK) {
    const absl::Status status = SqliteStatus(db, rc, options.path);
    sqlite3_close(db);
    return status;
  }
  std::unique_ptr<SqliteDatabase> database(new SqliteDatabase(options, db));
  MUSTER_RETURN_IF_ERROR(database->Configure());
  MUSTER_RETURN_IF_ERROR(database->SettleLog());
  MUSTER_RETURN_IF_ERROR(database->Migrate(migrations));
  MUSTER_RETURN_IF_ERROR(database->SetMaxBytes(options.max_bytes));
  return database;
}

SqliteDatabase::SqliteDatabase(SqliteOptions options, sqlite3* db)
    : options_(std::move(options)), db_(db) {}

SqliteDatabase::~SqliteDatabase() {
  copy_.reset();
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  const int rc = sqlite3_close(db_);
  MUSTER_CHECK(rc == SQLITE_OK, "a statement outlived its database");
}

absl::Status SqliteDatabase::Configure() {
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  sqlite3_limit(db_, SQLITE_LIMIT_LENGTH, kMaxValueBytes);
  sqlite3_limit(db_, SQLITE_LIMIT_SQL_LENGTH, kMaxSqlBytes);
  sqlite3_limit(db_, SQLITE_LIMIT_COLUMN, kMaxColumns);
  sqlite3_limit(db_, SQLITE_LIMIT_EXPR_DEPTH, kMaxExpressionDepth);
  sqlite3_limit(db_, SQLITE_LIMIT_ATTACHED, 0);
  // Exclusive before WAL: then the WAL's index lives in our memory and no other process can join.
  // Pages, of a new file, hold four queued jobs: with the default of 4 KiB the log is written in
  // twice as many calls.
  for (const char* pragma :
       {"PRAGMA page_size=8192", "PRAGMA locking_mode=EXCLUSIVE", "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL", "PRAGMA mmap_size=0", "PRAGMA wal_autocheckpoint=0",
        "PRAGMA foreign_keys=ON", "PRAGMA temp_store=MEMORY"}) {
    MUSTER_RETURN_IF_ERROR(Execute(pragma));
  }
  {
    SqliteStatement mode = Prepare("PRAGMA journal_mode");
    MUSTER_ASSIGN_OR_RETURN(const bool row, mode.Step());
    if (!row || mode.Text(0) != "wal") {
      return absl::FailedPreconditionError(
          absl::StrCat(path(), ": the file system does not allow SQLite's write-ahead log"));
    }
  }
  // After the pragma, which sets a hook of its own.
  sqlite3_wal_hook(
      db_,
      [](void* log_pages, sqlite3*, const char*, int pages) {
        *static_cast<uint64_t*>(log_pages) = static_cast<uint64_t>(pages);
        return SQLITE_OK;
      },
      &log_pages_);
  // Takes the exclusive lock now, not at the first write.
  MUSTER_RETURN_IF_ERROR(Execute("BEGIN EXCLUSIVE"));
  return Execute("COMMIT");
}

absl::Status SqliteDatabase::Migrate(const std::vector<std::string>& migrations) {
  MUSTER_RETURN_IF_ERROR(
      Execute("CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY) STRICT"));
  int64_t version = 0;
  {
    SqliteStatement newest = Prepare("SELECT coalesce(max(version), 0) FROM migrations");
    MUSTER_RETURN_IF_ERROR(newest.Step().status());
    version = newest.Int(0);
  }
  if (version > static_cast<int64_t>(migrations.size())) {
    return absl::FailedPreconditionError(absl::StrCat(
        path(), ": was written by a newer Muster (schema ", version, ", this one knows ",
        migrations.size(), "): start that version, or restore an older backup"));
  }
  for (size_t i = version; i < migrations.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(Begin());
    absl::Status status = Execute(migrations[i]);
    if (status.ok()) {
      SqliteStatement row = Prepare("INSERT INTO migrations (version) VALUES (?)");
      status = row.Bind(static_cast<int64_t>(i + 1)).Run();
    }
    if (!status.ok()) {
      Rollback();
      return status;
    }
    MUSTER_RETURN_IF_ERROR(Commit());
  }
  return absl::OkStatus();
}

absl::Status SqliteDatabase::Execute(const std::string& sql) {
  const int rc = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  return rc == SQLITE_OK ? absl::OkStatus() : SqliteStatus(db_, rc, path());
}

SqliteStatement SqliteDatabase::Prepare(const char* sql) {
  sqlite3_stmt*& known = by_address_[sql];
  if (known == nullptr || strcmp(sqlite3_sql(known), sql) != 0) {
    sqlite3_stmt*& statement = statements_[sql];
    if (statement == nullptr) {
      const int rc =
          sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
      MUSTER_CHECK(rc == SQLITE_OK, absl::StrCat(sqlite3_errmsg(db_), ": ", sql));
    }
    known = statement;
  }
  MUSTER_CHECK(sqlite3_stmt_busy(known) == 0, absl::StrCat("used twice at once: ", sql));
  return SqliteStatement(db_, known);
}

absl::Status SqliteDatabase::Begin() { return Prepare("BEGIN IMMEDIATE").Run(); }

absl::Status SqliteDatabase::Commit() {
  absl::Status status = Prepare("COMMIT").Run();
  if (!status.ok()) Rollback();
  return status;
}

void SqliteDatabase::Rollback() {
  // Some errors roll back by themselves.
  if (sqlite3_get_autocommit(db_) != 0) return;
  // A failed rollback leaves the file as it was: the log without a commit counts for nothing.
  sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

absl::Status SqliteDatabase::BeginCopy(const std::string& path) {
  copy_.reset();
  MUSTER_ASSIGN_OR_RETURN(copy_, SqliteCopy::Begin(db_, path));
  return absl::OkStatus();
}

absl::StatusOr<bool> SqliteDatabase::StepCopy() {
  if (copy_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(path(), ": the database was opened anew while it was copied"));
  }
  absl::StatusOr<bool> whole = copy_->Step();
  if (!whole.ok() || *whole) copy_.reset();
  return whole;
}

absl::Status SqliteDatabase::SettleLog() {
  int rc = sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  sqlite3_file* log = nullptr;
  if (rc == SQLITE_OK) {
    rc = sqlite3_file_control(db_, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  }
  // The truncation too: an old log that comes back would undo a part of what was moved.
  if (rc == SQLITE_OK && log != nullptr && log->pMethods != nullptr) {
    rc = log->pMethods->xSync(log, SQLITE_SYNC_FULL);
  }
  return rc == SQLITE_OK ? absl::OkStatus() : SqliteStatus(db_, rc, path());
}

absl::Status SqliteDatabase::CheckpointAbove(uint64_t wal_bytes) {
  MUSTER_ASSIGN_OR_RETURN(const int64_t page_bytes, PageBytes());
  if (log_pages_ * page_bytes <= wal_bytes) return absl::OkStatus();
  const int rc =
      sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_RESTART, nullptr, nullptr);
  if (rc == SQLITE_OK) {
    log_pages_ = 0;
    return absl::OkStatus();
  }
  const absl::Status status = SqliteStatus(db_, rc, path());
  return absl::IsResourceExhausted(status) ? absl::OkStatus() : status;
}

absl::StatusOr<int64_t> SqliteDatabase::PageBytes() {
  if (page_bytes_ == 0) {
    SqliteStatement size = Prepare("PRAGMA page_size");
    MUSTER_RETURN_IF_ERROR(size.Step().status());
    page_bytes_ = size.Int(0);
  }
  return page_bytes_;
}

absl::Status SqliteDatabase::SetMaxBytes(uint64_t max_bytes) {
  MUSTER_ASSIGN_OR_RETURN(const int64_t page_bytes, PageBytes());
  // SQLite's own highest count stands for "no bound".
  const uint64_t pages =
      max_bytes == 0 ? 4294967294u : std::max<uint64_t>(1, max_bytes / page_bytes);
  return Execute(absl::StrCat("PRAGMA max_page_count=", pages));
}

absl::Status SqliteDatabase::CheckIntegrity() {
  SqliteStatement check = Prepare("PRAGMA integrity_check(1)");
  MUSTER_ASSIGN_OR_RETURN(const bool row, check.Step());
  const std::string verdict = row ? check.Text(0) : "no answer";
  return verdict == "ok" ? absl::OkStatus()
                         : absl::DataLossError(absl::StrCat(path(), ": ", verdict));
}

}  // namespace muster::controller
