// Finds living processes in /proc: those of a process group, and those whose environment carries a
// rank's tag.
//
// A zombie counts as gone: it holds nothing any more. Processes of other users cannot be read and
// are passed over.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::worker {

// The environment variable that every process of a rank inherits; its value is the rank's folder.
inline constexpr absl::string_view kRankDirVariable = "MUSTER_RANK_DIR";

// Processes in group `group` (0: none asked for), or whose MUSTER_RANK_DIR is `folder` or lies in
// it. Never the caller.
std::vector<pid_t> FindProcesses(pid_t group, absl::string_view folder);

// The monitor of podman's container of this name (conmon) and all that descends from it, the
// container's own processes included: they carry no tag before the program runs. Where there is no
// monitor, a child of ours that podman forked to become it, which podman's own end leaves to us.
std::vector<pid_t> FindContainerProcesses(const std::string& name);

// Memory that these processes hold beside the page cache: anonymous and shared pages, each counted
// where it is mapped.
uint64_t ResidentBytes(const std::vector<pid_t>& processes);

}  // namespace muster::worker
