// Makes backups of a running controller, by a timer and when somebody asks, one at a time on a
// thread of its own, and removes the oldest.
//
// Databases are copied by the threads that own them into a staging folder of the data folder, and
// from there by the maker's thread: backup_dir, which may be a mount whose server is away, holds up
// nobody else.
//
// A backup appears under its name whole and durable, or not at all; what a crash leaves half made
// is removed after the next start. One that fails is said in the log and in last_error, and tried
// again after kRetry. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fs/file_system.h"
#include "controller/backup/backup_folder.h"

namespace muster::controller {

class BackupMaker {
 public:
  static constexpr absl::Duration kRetry = absl::Minutes(1);  // after a failure, by the timer
  static constexpr size_t kMaxAsking = 64;

  struct Options {
    std::string data_dir;
    std::string backup_dir;  // must be there when a backup is made: it may be a mount
    absl::Duration every;    // zero: only when somebody asks
    uint32_t keep = 0;       // the newest so many; at least one
    std::string version;
  };
  // What is asked of the running controller; called on the maker's thread.
  struct Sources {
    // Makes the databases' copies in the folder, which is below data_dir.
    std::function<absl::Status(const std::string& folder)> copy_databases;
    std::function<uint64_t()> term;
    // By hash: those that jobs refer to which live, or have ended so recently.
    std::function<std::vector<std::string>(absl::Duration ended_within)> uploads;
  };
  struct Made {
    std::string folder;
    BackupManifest manifest;
  };

  // All references outlive the maker.
  BackupMaker(Options options, Sources sources, FileSystem& fs, Clock& clock);
  ~BackupMaker();  // stops

  // Removes what a life that ended while it copied has left in the data folder.
  static void RemoveStaging(FileSystem& fs, const std::string& data_dir);

  // Starts the thread, which first finds what is there.
  void Start();
  // Who asks now or later is answered UNAVAILABLE, and no other backup is begun.
  void BeginStop();
  // And waits for the thread. A backup that is being made ends in failure or success first: stop
  // what copies before this.
  void Stop();

  // Has one made that begins after this call. `done` runs exactly once, on the maker's thread, or
  // on this one with UNAVAILABLE: stopping, or too many ask. Its statuses: FAILED_PRECONDITION:
  // backup_dir is not there; RESOURCE_EXHAUSTED: no room there, or for a second copy of the
  // databases in data_dir; what the copies say.
  void Ask(std::function<void(const absl::StatusOr<Made>&)> done);

  std::optional<Made> newest() const;
  absl::Status last_error() const;  // OK: the last one was made
  const Options& options() const { return options_; }

 private:
  void Run();
  bool IsStopping() const;
  absl::StatusOr<Made> Make();
  absl::Status Fill(const std::string& folder, absl::Duration began, BackupManifest& manifest);
  absl::Status CheckFolder() const;
  absl::Status CheckRoomForStaging() const;
  absl::Status CopyDatabases(const std::string& folder, BackupManifest& manifest);
  // `began`: when the databases' copies were, since boot.
  absl::Status CopyFiles(const std::string& folder, absl::Duration began, BackupManifest& manifest);
  absl::Status Remove(const std::string& name);
  // All but the newest `keep`; `made` is the newest whatever the clock said when others were made.
  void RemoveOld(const Made& made);
  void FindNewest();

  const Options options_;
  const Sources sources_;
  FileSystem& fs_;
  Clock& clock_;
  std::thread thread_;

  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  using Asking = std::vector<std::function<void(const absl::StatusOr<Made>&)>>;
  Asking asking_ MUSTER_GUARDED_BY(mutex_);       // for the next one
  Asking in_progress_ MUSTER_GUARDED_BY(mutex_);  // for the one that is being made
  std::optional<Made> newest_ MUSTER_GUARDED_BY(mutex_);
  absl::Status last_error_ MUSTER_GUARDED_BY(mutex_);
  // Since boot; infinite: only when asked.
  absl::Duration due_ MUSTER_GUARDED_BY(mutex_) = absl::InfiniteDuration();
};

}  // namespace muster::controller
