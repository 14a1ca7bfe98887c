// The processes whose parent is this agent: the leaders of its ranks, and orphans. The agent is a
// subreaper, so that whatever outlives the process of a rank that started it becomes its child,
// also in a session of its own and with another environment. So a glance at the list of children
// tells whether anything of a rank that has ended is left, where a scan of /proc looks at every
// process of the machine.
//
// Orphans come to the process's first thread; a leader is a child of the thread that started it.
// One thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <vector>

#include "common/base/unique_fd.h"

namespace muster::worker {

class ChildProcesses {
 public:
  // Makes this process a subreaper.
  ChildProcesses();

  void AddLeader(pid_t pid) { leaders_.insert(pid); }
  // Just before or after it is reaped.
  void RemoveLeader(pid_t pid) { leaders_.erase(pid); }

  // Reaps the orphans that have ended. Those that live; nothing when the kernel does not tell, and
  // then only a scan of /proc does.
  std::optional<std::vector<pid_t>> ReapOrphans();

 private:
  bool is_subreaper_ = false;
  // Of the first thread's and this thread's children; opened once.
  UniqueFd first_list_;
  UniqueFd self_list_;
  std::set<pid_t> leaders_;
};

}  // namespace muster::worker
