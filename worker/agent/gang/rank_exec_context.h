// What it takes to run a program beside a rank, in the same environment: folder, variables, CPUs,
// or container. Its cgroup is its own, so that what it takes too much of memory does not end the
// rank, but for a container's: there the program itself is in the container's. Plain data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "worker/agent/process/rank_cgroup.h"
#include "worker/agent/process/rank_process.h"

namespace muster::worker {

struct RankExecContext {
  RankCommand command;  // as the rank's, in `cgroup`; its program and words are to be replaced
  // In a container: what `command.program`, which is its runtime's, is told before the program's
  // own words.
  std::vector<std::string> runtime_words;
  std::shared_ptr<RankCgroup> cgroup;  // null: the agent's; goes on the loop, after the program
  UniqueFd rank_end;                   // readable when the rank's process has ended
  // Held until the program is over: until then the rank looks for it when it is cleared.
  std::shared_ptr<const void> unfinished;
};

}  // namespace muster::worker
