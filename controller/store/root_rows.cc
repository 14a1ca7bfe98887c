#include "controller/store/root_rows.h"

#include <utility>

#include "common/base/status_macros.h"

namespace muster::controller {

absl::Status PutRoot(SqliteDatabase& db, const RootIdentity& root) {
  return db
      .Prepare(
          "INSERT OR REPLACE INTO checkpoint_roots (path, identity, found_by) VALUES (?, ?, ?)")
      .Bind(root.path)
      .Bind(root.identity)
      .Bind(root.found_by)
      .Run();
}

absl::Status LoadRoots(SqliteDatabase& db, Snapshot& snapshot) {
  SqliteStatement row = db.Prepare("SELECT path, identity, found_by FROM checkpoint_roots");
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return absl::OkStatus();
    RootIdentity root{.path = row.Text(0), .identity = row.Text(1), .found_by = row.Text(2)};
    const std::string path = root.path;
    snapshot.roots.Put(path, std::move(root));
  }
}

}  // namespace muster::controller
