#include "controller/store/archived_time_rows.h"

#include <memory>
#include <utility>

#include "common/base/status_macros.h"
#include "controller/store/ledger_codec.h"

namespace muster::controller {

absl::Status PutArchivedTime(SqliteDatabase& db, const std::string& project,
                             const ArchivedTime& time) {
  return db.Prepare("INSERT OR REPLACE INTO forgotten_time (project, times) VALUES (?, ?)")
      .Bind(project)
      .Bind(EncodeArchivedTime(time))
      .Run();
}

absl::Status LoadArchivedTime(SqliteDatabase& db, Snapshot& snapshot) {
  auto times = std::make_shared<std::map<std::string, ArchivedTime>>();
  {
    SqliteStatement row = db.Prepare("SELECT project, times FROM forgotten_time");
    for (;;) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
      if (!more) break;
      MUSTER_ASSIGN_OR_RETURN(ArchivedTime time, DecodeArchivedTime(row.Text(1)));
      times->emplace(row.Text(0), time);
    }
  }
  snapshot.archived_time = std::move(times);
  return absl::OkStatus();
}

}  // namespace muster::controller
