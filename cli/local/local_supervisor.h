// Keeps musterd and its workers running on one machine, as systemd would: starts them, starts again
// what dies (same names, same ports), stops all in order. It is a process of its own with one
// thread, started by `muster local up`; when it is killed, the kernel kills its daemons (they are
// made to survive that), so nothing is left behind.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/local/local_state.h"
#include "common/fs/file_system.h"

namespace muster::cli {

struct SupervisorOptions {
  std::string dir;      // absolute
  std::string bin_dir;  // holds musterd and muster-worker
  int workers = 2;
  int slots_per_worker = 1;
  std::string listen;  // musterd's three ports; port 0: any, but the same one after a restart
  std::string worker_listen;
  std::string http_listen;
  absl::Duration restart_delay = absl::Seconds(1);
};

// How long to wait before starting a daemon again: restart_delay, doubled for each start in a row
// that did not last, so that a broken binary does not spin. Pure.
absl::Duration RestartDelay(absl::Duration restart_delay, int short_lives);

class LocalSupervisor {
 public:
  LocalSupervisor(SupervisorOptions options, FileSystem& fs);

  // Runs until SIGTERM or SIGINT, then stops the workers, which save their jobs, then musterd.
  // Requires the lock of the folder. An error when it could not even begin.
  absl::Status Run();

 private:
  struct Daemon {
    std::string name;
    std::string data_dir;
    DaemonRecord record;
    absl::Duration started;
    absl::Duration next_start;  // while restarting
    int short_lives = 0;
  };

  void Start(Daemon& daemon, absl::Duration now);
  void StartDue(absl::Duration now);
  void Reap(absl::Duration now);
  void ReadEndpoints(Daemon& daemon);
  // Now and then; cuts those that have grown too long.
  void BoundLogs(absl::Duration now);
  void Stop();
  // Asks each to stop, waits for at most `grace`, then kills.
  void StopThese(const std::vector<Daemon*>& daemons, absl::Duration grace);
  // Waits for a signal or for the time; true when we are to stop.
  bool WaitForSignal(absl::Duration at_most);
  absl::Duration NextWait(absl::Duration now) const;
  std::vector<std::string> Argv(const Daemon& daemon) const;
  bool AnyAlive(const std::vector<Daemon*>& daemons) const;
  void Write();

  SupervisorOptions options_;
  const LocalPaths paths_;
  FileSystem& fs_;
  std::vector<Daemon> daemons_;  // musterd first
  std::string worker_address_;   // of musterd; empty until it was up once
  absl::Duration next_log_check_;
  bool stopping_ = false;
  int signal_fd_ = -1;
  std::string written_;
};

}  // namespace muster::cli
