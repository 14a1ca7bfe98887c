#include "controller/store/forgotten_rows.h"

#include <memory>
#include <utility>

#include "common/base/status_macros.h"
#include "controller/store/ledger_codec.h"

namespace muster::controller {

absl::Status DeleteJob(SqliteDatabase& db, const Job& job) {
  // Whoever refers to a row goes before it. Events are found by their sequences alone.
  for (const auto& event : job.events) {
    MUSTER_RETURN_IF_ERROR(
        db.Prepare("DELETE FROM events WHERE sequence = ?").Bind(event->sequence).Run());
  }
  for (const char* sql :
       {"DELETE FROM ranks WHERE job_id = ?", "DELETE FROM attempts WHERE job_id = ?",
        "DELETE FROM checkpoints WHERE job_id = ?", "DELETE FROM jobs WHERE id = ?"}) {
    MUSTER_RETURN_IF_ERROR(db.Prepare(sql).Bind(job.id).Run());
  }
  return absl::OkStatus();
}

absl::Status PutForgottenTime(SqliteDatabase& db, const std::string& project,
                              const ForgottenTime& time) {
  return db.Prepare("INSERT OR REPLACE INTO forgotten_time (project, times) VALUES (?, ?)")
      .Bind(project)
      .Bind(EncodeForgottenTime(time))
      .Run();
}

absl::Status LoadForgottenTime(SqliteDatabase& db, Snapshot& snapshot) {
  auto times = std::make_shared<std::map<std::string, ForgottenTime>>();
  {
    SqliteStatement row = db.Prepare("SELECT project, times FROM forgotten_time");
    for (;;) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, row.Step());
      if (!more) break;
      MUSTER_ASSIGN_OR_RETURN(ForgottenTime time, DecodeForgottenTime(row.Text(1)));
      times->emplace(row.Text(0), time);
    }
  }
  snapshot.forgotten_time = std::move(times);
  return absl::OkStatus();
}

}  // namespace muster::controller
