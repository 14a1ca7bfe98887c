// A copy of a database into a new file, made a few pages at a time while the same connection goes
// on writing: SQLite's backup carries every change of the source into the pages that were copied
// already, so that the file is the source as it is at the last step.
//
// Of the thread that owns the source; store/sqlite.h holds it, so that it goes before the source.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;  // SQLite's own: store/sqlite.h has its header
struct sqlite3_backup;

namespace muster::controller {

class SqliteCopy {
 public:
  // `path` must not exist. Statuses as store/sqlite.h, of that file.
  static absl::StatusOr<std::unique_ptr<SqliteCopy>> Begin(sqlite3* source,
                                                           const std::string& path);
  ~SqliteCopy();  // leaves what is half written: the caller removes it
  SqliteCopy(const SqliteCopy&) = delete;
  SqliteCopy& operator=(const SqliteCopy&) = delete;

  // Copies about half a MiB, between two transactions of the source. True: the copy is whole, and
  // not yet synced. After an error it is of no use.
  absl::StatusOr<bool> Step();

 private:
  SqliteCopy(sqlite3* target, std::string path) : target_(target), path_(std::move(path)) {}
  void Finish();

  sqlite3* target_;
  sqlite3_backup* backup_ = nullptr;
  const std::string path_;
};

}  // namespace muster::controller
