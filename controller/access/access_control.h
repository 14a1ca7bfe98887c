// Who may do what, and the record of what was done: owns access.db, and the one thread that writes
// it. Changes and rows of the record that wait at the same time share a transaction; whoever waits
// for one is called back after the commit.
//
// When the disk is full, changes of users are refused, and so are, through CanRecord, all others;
// rows of changes that were under way are written once there is room. Methods are thread-safe.
// Callbacks run on that thread, or, after Stop, on the caller's.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "controller/access/access_types.h"
#include "controller/access/audit_fold.h"
#include "controller/access/audit_types.h"
#include "controller/access/authenticator.h"

namespace muster::controller {

class AccessStore;
class AuditStore;
class SqliteDatabase;
struct AuditWalk;

struct AccessOptions {
  std::string path;                         // of access.db
  uint64_t audit_max_bytes = 256ull << 20;  // of the record: the oldest rows go
  uint64_t database_max_bytes = 0;          // 0: no bound; tests use it as a full disk
  absl::Duration retry = absl::Seconds(1);  // of rows that found no room
  // Called once when access.db can no longer be trusted: the process must exit and start anew.
  std::function<void(const absl::Status&)> on_fatal;
};

class AccessControl {
 public:
  // Edits the tables, and says what it did; not OK: nothing. Runs on the thread. `touched` are the
  // users and tokens that are to be stored, or removed where they are not in the tables any more.
  struct Touched {
    std::vector<std::string> users;
    std::vector<uint64_t> tokens;
  };
  using Edit = std::function<absl::Status(AccessTables& tables, Touched& touched)>;

  // Loads everything. `builtin_token` is the one in the data folder. Errors: those of
  // store/sqlite.h; without its tables nobody could be told from another.
  static absl::StatusOr<std::unique_ptr<AccessControl>> Open(AccessOptions options,
                                                             std::string builtin_token,
                                                             Clock& clock);
  ~AccessControl();  // stops
  AccessControl(const AccessControl&) = delete;
  AccessControl& operator=(const AccessControl&) = delete;

  // Writes what waits and ends the thread. Idempotent.
  void Stop() MUSTER_EXCLUDES(mutex_);

  const Authenticator& authenticator() const { return authenticator_; }
  // The newest tables; never null.
  std::shared_ptr<const AccessTables> tables() const MUSTER_EXCLUDES(mutex_);

  // Makes a change of the tables and its row of the record durable, together. `done` hears how it
  // ended: the edit's status, RESOURCE_EXHAUSTED: the disk is full, or too many wait; UNAVAILABLE:
  // stopping.
  void Change(Edit edit, AuditEntry entry, std::function<void(const absl::Status&)> done)
      MUSTER_EXCLUDES(mutex_);

  // RESOURCE_EXHAUSTED: changes cannot be recorded now, so that none may be made.
  absl::Status CanRecord() const;
  // Records a change that was made elsewhere. `done` runs once its row is durable, or that of an
  // equal one less than a minute ago, after which those that follow are counted in one more row
  // (audit_fold.h); on a full disk at once, as the change is made, and the row waits for room.
  void Record(AuditEntry entry, std::function<void()> done) MUSTER_EXCLUDES(mutex_);
  // Records what was denied. Equal ones, and floods, are counted together (audit_fold.h).
  void RecordDenial(AuditEntry entry) MUSTER_EXCLUDES(mutex_);

  void ReadAudit(const AuditQuery& query, std::function<void(absl::StatusOr<AuditPage>)> done)
      MUSTER_EXCLUDES(mutex_);
  // Walks over all rows, between the writes. DATA_LOSS names the first row that is wrong. `known`:
  // a row that was told before; number 0: none. NOT_FOUND: that was dropped since.
  void VerifyAudit(const AuditPoint& known, std::function<void(absl::StatusOr<AuditVerdict>)> done)
      MUSTER_EXCLUDES(mutex_);

  // Copies access.db into a new file, a piece between two writes, and waits for its end.
  // UNAVAILABLE: stopping. Else as SqliteDatabase::BeginCopy.
  absl::Status CopyTo(const std::string& path) MUSTER_EXCLUDES(mutex_);

  absl::Time Now() const { return clock_.Now(); }

 private:
  static constexpr size_t kMostWaiting = 1000;  // changes and questions; records come with calls
  struct Write {
    Edit edit;                                      // null: only the row
    std::optional<AuditEntry> entry;                // nothing: it is counted in a later row
    std::function<void(const absl::Status&)> done;  // null: nobody waits
  };
  using Work = std::function<void()>;

  AccessControl(AccessOptions options, std::string builtin_token, Clock& clock);

  absl::Status Load();
  void Run() MUSTER_EXCLUDES(mutex_);
  // Writes them in one transaction, and calls who waits.
  void WriteAll(std::vector<Write> writes) MUSTER_EXCLUDES(mutex_);
  absl::Status WriteRows(std::vector<Write>& writes, std::vector<absl::Status>& ends,
                         AccessTables& tables, bool& begun);
  absl::Status BeginOnce(bool& begun);
  absl::Status Store(const AccessTables& tables, const Touched& touched);
  void FlushLastUsed();
  void Fail(const absl::Status& status);
  void Ask(Work work, std::function<void(const absl::Status&)> refused) MUSTER_EXCLUDES(mutex_);
  void GoOnCopying(std::function<void(const absl::Status&)> done);
  void GoOnVerifying(AuditPoint known, std::shared_ptr<AuditWalk> walk,
                     std::function<void(absl::StatusOr<AuditVerdict>)> done);

  const AccessOptions options_;
  Clock& clock_;
  Authenticator authenticator_;
  std::unique_ptr<SqliteDatabase> db_;  // of the thread, as the next
  std::unique_ptr<AccessStore> store_;
  std::unique_ptr<AuditStore> audit_;
  std::vector<Write> held_;  // rows that found no room
  absl::Duration flushed_at_;

  std::atomic<bool> full_ = false;
  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  bool stopped_ MUSTER_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const AccessTables> tables_ MUSTER_GUARDED_BY(mutex_);
  std::vector<Write> writes_ MUSTER_GUARDED_BY(mutex_);
  std::deque<Work> questions_ MUSTER_GUARDED_BY(mutex_);
  AuditFold fold_ MUSTER_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace muster::controller
