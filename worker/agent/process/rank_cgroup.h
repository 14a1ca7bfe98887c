// Cgroups (v2) for ranks: a wall around their memory and the number of their processes, and one
// stroke that ends all that a rank started, however it forked. They are made below the agent's own,
// where that is the agent's to divide: as root, or under systemd with `Delegate=`.
//
// Where memory is not the agent's to divide its cgroups still end ranks; where none can be made,
// ranks run without, and the supervisor's watches do what they can.
//
// A cgroup that a rank left empty serves a later one: to make and remove one takes the kernel
// longer than all else that a start needs, and short commands come by the hundred. One thread.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"
#include "worker/agent/process/process_scan.h"

namespace muster::worker {

// A cgroup, and what of it is kept open.
struct CgroupFolder {
  std::string path;
  UniqueFd folder;
  UniqueFd kill;           // cgroup.kill
  UniqueFd events;         // cgroup.events
  uint64_t processes = 0;  // pids.max; 0: no limit
};

// Those that wait for a rank; removed at the end.
struct SpareCgroups {
  static constexpr size_t kMost = 128;

  SpareCgroups() = default;
  ~SpareCgroups();
  SpareCgroups(const SpareCgroups&) = delete;
  SpareCgroups& operator=(const SpareCgroups&) = delete;

  std::vector<CgroupFolder> folders;
};

// One rank's.
class RankCgroup {
 public:
  // Ends what is left in it; a folder that is still in use is removed when the agent starts anew.
  ~RankCgroup();
  RankCgroup(const RankCgroup&) = delete;
  RankCgroup& operator=(const RankCgroup&) = delete;

  const std::string& path() const { return folder_.path; }
  // Its last part, which no other of this machine has.
  std::string name() const { return folder_.path.substr(folder_.path.rfind('/') + 1); }
  // Its folder, for CLONE_INTO_CGROUP.
  int fd() const { return folder_.folder.get(); }
  bool limits_memory() const { return memory_limit_ != 0; }

  // No process that lives, or is being forked, is in it.
  bool IsEmpty() const;
  // SIGKILL to every process in it, those included that are being forked. It serves no other rank
  // then: Linux 6.18 kills also what begins in it later.
  void Kill();
  // Has the kernel ended processes of it because they needed more memory than its limit? Then what
  // they held at most.
  std::optional<uint64_t> OutOfMemoryAt() const;

 private:
  friend class RankCgroups;
  RankCgroup(CgroupFolder folder, uint64_t memory_limit, std::shared_ptr<SpareCgroups> spare)
      : folder_(std::move(folder)), memory_limit_(memory_limit), spare_(std::move(spare)) {}

  CgroupFolder folder_;
  const uint64_t memory_limit_;  // 0: none
  bool killed_ = false;
  const std::shared_ptr<SpareCgroups> spare_;
};

class RankCgroups {
 public:
  // This process's cgroup. UNAVAILABLE: it has none of v2.
  static absl::StatusOr<std::string> OwnFolder();
  // What lives in the cgroups of this agent's ranks below `folder`, and in those below them,
  // whatever it carries.
  static std::vector<ProcessId> ProcessesBelow(const std::string& folder, const std::string& agent);
  // Below this process's cgroup. `agent` is this agent's alone on this machine: what an earlier one
  // of that name left is ended and removed. `ranks` at most run at a time: they share what
  // processes there may be. UNAVAILABLE, PERMISSION_DENIED: why there are none.
  static absl::StatusOr<std::unique_ptr<RankCgroups>> Open(const std::string& agent,
                                                           size_t ranks = 1);
  // Below `folder`.
  static absl::StatusOr<std::unique_ptr<RankCgroups>> OpenAt(const std::string& folder,
                                                             const std::string& agent,
                                                             size_t ranks = 1);

  bool can_limit_memory() const { return can_limit_memory_; }
  // Processes and threads that each may have; 0: no limit can be kept.
  uint64_t most_processes() const { return most_processes_; }
  // One for a rank. memory_limit 0: none. UNIMPLEMENTED: a limit that cannot be kept here.
  absl::StatusOr<std::unique_ptr<RankCgroup>> Make(uint64_t memory_limit) {
    return Make(memory_limit, most_processes_);
  }
  // One for a program that a person runs beside a rank: without a limit of memory, and with few
  // processes, so that the agent has some left for itself beside all such programs.
  static constexpr uint64_t kProcessesBeside = 256;
  absl::StatusOr<std::unique_ptr<RankCgroup>> MakeBeside() {
    return Make(/*memory_limit=*/0, std::min(most_processes_, kProcessesBeside));
  }

 private:
  absl::StatusOr<CgroupFolder> MakeFolder();
  absl::StatusOr<std::unique_ptr<RankCgroup>> Make(uint64_t memory_limit, uint64_t processes);
  RankCgroups(std::string prefix, bool can_limit_memory, uint64_t most_processes)
      : prefix_(std::move(prefix)),
        can_limit_memory_(can_limit_memory),
        most_processes_(most_processes) {}

  const std::string prefix_;  // of the folders' paths
  const bool can_limit_memory_;
  const uint64_t most_processes_;
  const std::shared_ptr<SpareCgroups> spare_ = std::make_shared<SpareCgroups>();
  uint64_t next_ = 1;  // number of a new one
};

}  // namespace muster::worker
