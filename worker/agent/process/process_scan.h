// Finds living processes in /proc: those of a process group, and those of a rank by what they
// carry, its tag in their environment or its logs as their output.
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

// One process, told apart from a later one of its number.
struct ProcessId {
  pid_t pid = 0;
  uint64_t started = 0;  // in ticks since boot; 0: it is gone

  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};
ProcessId Identify(pid_t pid);
// A zombie does not.
bool IsLiving(const ProcessId& process);
// Through a descriptor of the process, so that no stranger of its number is hit. False: it is gone.
bool SignalProcess(const ProcessId& process, int signal);

// Processes in group `group` (0: none asked for), or whose MUSTER_RANK_DIR is `folder` or lies in
// it, or whose stdout or stderr does. Never the caller.
std::vector<ProcessId> FindProcesses(pid_t group, absl::string_view folder);
// Whether this thread, since it last asked, could not look at some process for want of descriptors
// or memory: what the functions here said since then may not be all.
bool ScanIncomplete();
// The same of one process.
bool BelongsTo(pid_t pid, pid_t group, absl::string_view folder);
// Whether it is in the cgroup (v2) of this name, or in one below.
bool IsInCgroup(pid_t pid, absl::string_view name);
// Whether it is called like one that a container runtime leaves running for itself: a monitor, or
// what keeps its networks and namespaces. A rank's program may choose such a name, too. Callers
// tell it apart by its cgroup; where this worker has no container, nothing is a helper. The
// executable's path tells nothing: it may be a file in memory, a link, or in another namespace.
// Taking a helper for a leftover of a rank would end other ranks' containers.
bool IsRuntimeHelper(pid_t pid);

// The monitor of podman's container of this name (conmon) and all that descends from it, the
// container's own processes included: they carry no tag before the program runs. Where there is no
// monitor, a child of ours that podman forked to become it, which podman's own end leaves to us.
std::vector<ProcessId> FindContainerProcesses(const std::string& name);

// Memory that these processes hold beside the page cache: anonymous and shared pages, each counted
// where it is mapped.
uint64_t ResidentBytes(const std::vector<ProcessId>& processes);

}  // namespace muster::worker
