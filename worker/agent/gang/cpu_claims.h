// Gives ranks CPUs of their own: no two ranks of this machine that asked for CPUs share one, also
// when they belong to different agents.
//
// A CPU is claimed by a name in the kernel's abstract socket space, which is the machine's (its
// network namespace's) and is freed with the descriptor, however its holder ends. What is not
// claimed is shared by those that asked for nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/unique_fd.h"

namespace muster::worker {

struct CpuClaim {
  std::vector<int> cpus;       // empty: there were not enough
  std::vector<UniqueFd> held;  // as long as these are open
};

// Claims `count` of the CPUs that this process may run on. `space` tells claims apart in tests.
CpuClaim ClaimCpus(uint32_t count, const char* space = "muster-cpu-");

}  // namespace muster::worker
