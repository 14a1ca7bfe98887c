// What it takes to run a program beside a rank, in the same environment: folder, variables, CPUs,
// cgroup, or container. Plain data.
#pragma once

#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "worker/agent/process/rank_process.h"

namespace muster::worker {

struct BesideRank {
  RankCommand command;  // as the rank's, with `cgroup`; its program and words are to be replaced
  // In a container: what `command.program`, which is its runtime's, is told before the program's
  // own words.
  std::vector<std::string> runtime_words;
  UniqueFd cgroup;
  UniqueFd rank_end;  // readable when the rank's process has ended
};

}  // namespace muster::worker
