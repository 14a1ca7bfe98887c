#include "controller/store/backup/restored_state.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "controller/model/snapshot.h"
#include "controller/store/history/history_store.h"
#include "controller/store/metrics/metrics_store.h"
#include "controller/store/sqlite.h"
#include "controller/store/state_store.h"

namespace muster::controller {
namespace {

// What may have been given between the backup and its restore.
constexpr uint64_t kSkippedJobs = 10'000;
constexpr uint64_t kSkippedCheckpoints = 1'000'000;
constexpr uint64_t kSkippedEvents = 1'000'000;

}  // namespace

absl::Status CheckCopy(const std::string& path) {
  sqlite3* db = nullptr;
  // Immutable: no lock, no log and no index of one is made beside it.
  const std::string uri = absl::StrCat("file:", path, "?immutable=1");
  int rc = sqlite3_open_v2(
      uri.c_str(), &db,
      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      nullptr);
  std::string verdict;
  if (rc == SQLITE_OK) {
    rc = sqlite3_exec(
        db, "PRAGMA integrity_check(1)",
        [](void* out, int, char** columns, char**) {
          *static_cast<std::string*>(out) = columns[0] == nullptr ? "" : columns[0];
          return 0;
        },
        &verdict, nullptr);
  }
  absl::Status status;
  if (rc != SQLITE_OK) {
    status = SqliteStatus(db, rc, path);
  } else if (verdict != "ok") {
    status = absl::DataLossError(absl::StrCat(path, ": ", verdict));
  }
  sqlite3_close(db);
  return status;
}

absl::StatusOr<RestoredState> PrepareRestored(const std::string& folder, absl::Time now) {
  MUSTER_RETURN_IF_ERROR(HistoryStore::Open({.path = folder + "/history.db"}).status());
  MUSTER_RETURN_IF_ERROR(MetricsStore::Open(folder + "/metrics.db", 0).status());
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StateStore> state,
                          StateStore::Open({.path = folder + "/state.db"}));
  MUSTER_ASSIGN_OR_RETURN(Snapshot snapshot, state->Load(0, absl::ZeroDuration(), now));
  snapshot.jobs.SkipTo(snapshot.jobs.last_id() + kSkippedJobs);
  snapshot.checkpoints.SkipTo(snapshot.checkpoints.last_id() + kSkippedCheckpoints);
  snapshot.last_event += kSkippedEvents;
  snapshot.archived_events += kSkippedEvents;
  MUSTER_RETURN_IF_ERROR(state->PutSkipped(snapshot));
  MUSTER_RETURN_IF_ERROR(state->PutRestored(now));
  MUSTER_ASSIGN_OR_RETURN(const std::optional<RestoredFrom> restored, state->Restored());
  return RestoredState{.jobs = snapshot.jobs.size(),
                       .active_jobs = snapshot.active_jobs->size(),
                       .term = restored->restored_at_term};
}

}  // namespace muster::controller
