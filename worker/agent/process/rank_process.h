// One rank's process: forked by a long-lived thread of the agent's, in a process group of its own,
// and dead at the latest when that thread is.
//
// The child sets PR_SET_PDEATHSIG=SIGKILL and checks its parent after it, so there is no moment at
// which it could be left behind. It keeps three descriptors (stdin from /dev/null, stdout and
// stderr appended to files) and, where one is wanted, the link's end; all others are closed. The
// leader is reaped only when its whole group is dead, so that the group's number cannot come to
// name strangers.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "worker/agent/process/child_processes.h"

namespace muster::worker {

struct RankCommand {
  std::string program;            // a path; not searched for
  std::vector<std::string> argv;  // all of it, the program's name first
  // NAME=value, all of it; MUSTER_LINK_FD is added when there is a link.
  std::vector<std::string> environment;
  std::string directory;      // the working directory
  std::string log_directory;  // where stdout.log and stderr.log are
  bool link = true;           // a socket to the agent, inherited
  // Its standard streams, instead of /dev/null and the files in log_directory.
  struct Streams {
    int in = -1;
    int out = -1;
    int err = -1;
    bool is_terminal = false;  // it becomes the controlling one, of a session of the program's own
  };
  std::optional<Streams> streams;
  std::vector<int> cpus;  // those that it may run on; empty: as the agent
  int cgroup_fd = -1;     // the folder of its cgroup; -1: as the agent
  // What its processes leave behind becomes its own child while it lives, not the agent's: so what
  // the agent inherits is of a rank that has ended.
  bool keeps_orphans = false;
  std::optional<mode_t> file_mask;   // its umask; nothing: the agent's
  std::optional<int> oom_score_adj;  // nothing: the agent's
  // Processes and threads of this user that are left to others, where a limit is known.
  uint64_t process_headroom = 0;
};

// Lets another thread end a start that takes too long: what runs the program waits for its file
// system.
class LaunchWatch {
 public:
  // SIGKILL to what has not begun to run, or is not even born; LaunchProcess then fails by
  // DEADLINE_EXCEEDED, as soon as the kernel lets go. Any thread, at any time.
  void Kill() MUSTER_EXCLUDES(mutex_);
  bool killed() const { return killed_; }

 private:
  friend class LaunchScope;

  mutable Mutex mutex_;
  bool over_ MUSTER_GUARDED_BY(mutex_) = false;
  // The child, which shares our memory until it runs its program, says its number and then looks
  // whether it was killed; Kill does the opposite. So whichever comes second sees the other.
  std::atomic<pid_t> child_ = 0;
  std::atomic<bool> killed_ = false;
};

struct ExitStatus {
  int code = 0;
  int signal = 0;  // 0: it exited by itself
};

// A process that nobody looks after yet.
struct StartedProcess {
  pid_t pid = 0;
  UniqueFd exit_fd;  // its pidfd
  UniqueFd link;     // the agent's end, if there is one
};

// NOT_FOUND, PERMISSION_DENIED: the program or a file cannot be opened; RESOURCE_EXHAUSTED: no
// process or memory left; INTERNAL: anything else. The message names the program and the step that
// failed. Returns once the program runs; what the calling thread starts dies with it. Any thread.
absl::StatusOr<StartedProcess> LaunchProcess(const RankCommand& command,
                                             LaunchWatch* watch = nullptr);

// Lives on one thread, which need not be the one that launched the process.
class RankProcess {
 public:
  // `children` outlives it and knows it as a leader until it is reaped.
  RankProcess(StartedProcess process, ChildProcesses& children);
  // Both on this thread; errors are LaunchProcess's.
  static absl::StatusOr<std::unique_ptr<RankProcess>> Start(const RankCommand& command,
                                                            ChildProcesses& children);
  // Kills what still runs; waits for the leader only, and not for one that was given up.
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Readable once the leader has ended.
  int exit_fd() const { return exit_fd_.get(); }
  // The agent's end of the link, if there is one; the caller takes it.
  UniqueFd TakeLink() { return std::move(link_); }

  // How the leader ended; nothing while it lives. Does not reap it.
  std::optional<ExitStatus> Ended() const;
  // To the leader alone, and to the whole group. Harmless once they are dead.
  void Signal(int signal) const;
  void SignalGroup(int signal) const;
  // Frees the process table entry. Requires Ended().
  void Reap();
  // SIGKILL did not end it: nobody waits for it any more. Whoever looks on may still see its end.
  void GiveUp() { given_up_ = true; }

 private:
  ChildProcesses& children_;
  const pid_t pid_;
  UniqueFd exit_fd_;
  UniqueFd link_;
  bool reaped_ = false;
  bool given_up_ = false;
};

}  // namespace muster::worker
