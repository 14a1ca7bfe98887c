#include "controller/store/backup/sqlite_copy.h"

#include "controller/store/sqlite.h"

namespace muster::controller {
namespace {

constexpr int kPagesPerStep = 64;  // of 8 KiB

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteCopy>> SqliteCopy::Begin(sqlite3* source,
                                                              const std::string& path) {
  sqlite3* target = nullptr;
  int rc = sqlite3_open_v2(
      path.c_str(), &target,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      nullptr);
  std::unique_ptr<SqliteCopy> copy(new SqliteCopy(target, path));
  // What dies half written is removed, so that it needs no journal. Nothing is synced: the thread
  // that owns the source must not wait for a disk.
  for (const char* pragma :
       {"PRAGMA locking_mode=EXCLUSIVE", "PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF"}) {
    if (rc == SQLITE_OK) rc = sqlite3_exec(target, pragma, nullptr, nullptr, nullptr);
  }
  if (rc != SQLITE_OK) return SqliteStatus(target, rc, path);
  copy->backup_ = sqlite3_backup_init(target, "main", source, "main");
  if (copy->backup_ == nullptr) {
    return SqliteStatus(target, sqlite3_extended_errcode(target), path);
  }
  return copy;
}

SqliteCopy::~SqliteCopy() {
  Finish();
  sqlite3_close(target_);
}

void SqliteCopy::Finish() {
  if (backup_ != nullptr) sqlite3_backup_finish(backup_);
  backup_ = nullptr;
}

absl::StatusOr<bool> SqliteCopy::Step() {
  const int rc = sqlite3_backup_step(backup_, kPagesPerStep);
  if (rc == SQLITE_OK) return false;
  if (rc != SQLITE_DONE) return SqliteStatus(target_, rc, path_);
  const int finished = sqlite3_backup_finish(backup_);
  backup_ = nullptr;
  if (finished != SQLITE_OK) return SqliteStatus(target_, finished, path_);
  return true;
}

}  // namespace muster::controller
