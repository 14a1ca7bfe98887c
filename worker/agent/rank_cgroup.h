// Cgroups (v2) for ranks: a wall around their memory, and one stroke that ends all that a rank
// started, however it forked. They are made below the agent's own, where that is the agent's to
// divide: as root, or under systemd with `Delegate=`.
//
// Where memory is not the agent's to divide its cgroups still end ranks; where none can be made,
// ranks run without, and the supervisor's watches do what they can. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace muster::worker {

// One rank's.
class RankCgroup {
 public:
  // Ends what is left in it; a folder that is still in use is removed when the agent starts anew.
  ~RankCgroup();
  RankCgroup(const RankCgroup&) = delete;
  RankCgroup& operator=(const RankCgroup&) = delete;

  const std::string& path() const { return path_; }
  // Its folder, for CLONE_INTO_CGROUP.
  int fd() const { return folder_.get(); }
  bool limits_memory() const { return memory_limit_ != 0; }

  // SIGKILL to every process in it, those included that are being forked.
  void Kill() const;
  // Has the kernel ended processes of it because they needed more memory than its limit? Then what
  // they held at most.
  std::optional<uint64_t> OutOfMemoryAt() const;

 private:
  friend class RankCgroups;
  RankCgroup(std::string path, UniqueFd folder, uint64_t memory_limit)
      : path_(std::move(path)), folder_(std::move(folder)), memory_limit_(memory_limit) {}

  const std::string path_;
  const UniqueFd folder_;
  const uint64_t memory_limit_;  // 0: none
};

class RankCgroups {
 public:
  // Below this process's cgroup. `agent` is this agent's alone on this machine: what an earlier one
  // of that name left is ended and removed. UNAVAILABLE, PERMISSION_DENIED: why there are none.
  static absl::StatusOr<std::unique_ptr<RankCgroups>> Open(const std::string& agent);
  // Below `folder`.
  static absl::StatusOr<std::unique_ptr<RankCgroups>> OpenAt(const std::string& folder,
                                                             const std::string& agent);

  bool can_limit_memory() const { return can_limit_memory_; }
  // `name` is the rank's. memory_limit 0: none. UNIMPLEMENTED: a limit that cannot be kept here.
  absl::StatusOr<std::unique_ptr<RankCgroup>> Make(const std::string& name, uint64_t memory_limit);

 private:
  RankCgroups(std::string prefix, bool can_limit_memory)
      : prefix_(std::move(prefix)), can_limit_memory_(can_limit_memory) {}

  const std::string prefix_;  // of the folders' paths
  const bool can_limit_memory_;
};

}  // namespace muster::worker
