// state.db: everything the controller must not forget. Read whole at the start, then appended to
// and updated. Jobs that have ended leave it for history.db in time (policy/archive).
//
// Owned by one thread, the applier's. Errors: those of store/sqlite.h; DATA_LOSS also when the
// tables contradict each other (a gap in the events, a job that differs from their replay).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "controller/model/draft.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/assignment_types.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

class StateStore {
 public:
  // Opens or makes `options.path` and brings it to the newest schema.
  static absl::StatusOr<std::unique_ptr<StateStore>> Open(const SqliteOptions& options);

  // Raises the term by one, durably, and returns it.
  absl::StatusOr<uint64_t> StartTerm();

  // The whole model. Workers come as suspect and not connected, until they say Hello; `now` (since
  // boot) stands for every time since boot, which does not outlive a machine. `wall` is the same
  // moment by the wall clock: ledger time goes on from it, or from what is stored if that is later.
  // `boot` names the boot that `now` counts from: in one and the same, ledger time goes on by it,
  // and the wall clock is not asked. 0: not known.
  absl::StatusOr<Snapshot> Load(uint64_t term, absl::Duration now, absl::Time wall,
                                uint64_t boot = 0);

  // 16 random bytes, made with the database: nobody else's terms are to be compared with these.
  absl::StatusOr<std::string> ControllerId();

  // Ids and sequences up to those of the snapshot are given, whatever rows are here.
  absl::Status PutSkipped(const Snapshot& snapshot);

  // Stores the changes in one transaction; all of it or nothing.
  absl::Status Append(const ChangeSet& changes);

  // As SqliteDatabase's.
  absl::Status BeginCopy(const std::string& path) { return database_->BeginCopy(path); }
  absl::StatusOr<bool> StepCopy() { return database_->StepCopy(); }

  // `musterd restore`, of a backup that was just put back, at the time `now`: notes what the backup
  // knows, and raises the term and the numbers of assignments above all that any controller can
  // have given by then. (Both grow more slowly than the clock: a start takes longer than a second,
  // an assignment longer than a microsecond.)
  absl::Status PutRestored(absl::Time now);
  // nullopt: this state was never restored.
  absl::StatusOr<std::optional<RestoredFrom>> Restored();
  absl::Status AcceptRestored();

  // Moves the log's content into the database when the log has grown; between two batches.
  absl::Status TruncateLog() { return database_->CheckpointWhenLarge(); }

  absl::Status SetMaxBytes(uint64_t max_bytes) { return database_->SetMaxBytes(max_bytes); }
  absl::Status CheckIntegrity() { return database_->CheckIntegrity(); }

 private:
  explicit StateStore(std::unique_ptr<SqliteDatabase> database) : database_(std::move(database)) {}

  absl::Status AppendRows(const ChangeSet& changes);
  absl::Status PutWorker(const Worker& worker);
  absl::Status InsertOutbox(const OutboxRow& row);
  absl::Status PutArchived(const ChangeSet::Archived& archived);
  absl::Status PutMeta(const char* key, uint64_t value);
  absl::StatusOr<uint64_t> GetMeta(const char* key);  // 0: not there
  // What is known of jobs that are not here any more, all but their times by project.
  absl::Status LoadArchived(Snapshot& snapshot);
  // Ledger time at the boot, which stays the same in one boot; `origin` in a new one.
  absl::StatusOr<absl::Time> KeepOrigin(uint64_t boot, absl::Time origin);

  std::unique_ptr<SqliteDatabase> database_;
};

// The state of each job by its events alone; DATA_LOSS at a gap or at an event that does not start
// where the one before ended. `events` by sequence; so many as `archived` are rightly missing.
absl::StatusOr<std::map<uint64_t, JobState>> ReplayEvents(
    const std::vector<std::shared_ptr<const JobEvent>>& events, uint64_t archived = 0);

}  // namespace muster::controller
