// What this machine can offer: slots, cores, memory, and the address at which other workers reach
// its ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "muster/v1/common.pb.h"
#include "worker/agent/device/nvml.h"

namespace muster::worker {

// Cores that this process may run on.
uint32_t AvailableCpus();
// The machine's memory, or the limit of its cgroup, or of one above that, where that is lower.
uint64_t AvailableMemoryBytes();
// The least limit in bytes that cgroup v2 sets for what the file `cgroups` (/proc/PID/cgroup) tells
// of; nothing: there is none. `mount`: where the cgroups are.
std::optional<uint64_t> CgroupMemoryBytes(const std::string& cgroups, const std::string& mount);
// Resident memory of this process.
uint64_t ResidentBytes();

// Those that CUDA would show under CUDA_VISIBLE_DEVICES=`visible`, in its order: numbers as the
// driver counts, or beginnings of UUIDs, separated by commas; what names none ends the list. A
// batch system gives a step its GPUs in that way. nullptr, the variable is not set: all. Pure.
std::vector<GpuReading> VisibleGpus(const std::vector<GpuReading>& gpus, const char* visible);

// One slot per GPU, then CPU slots: `cpu_slots` of them, or, when that is not given, one per core
// on a machine without GPUs and none on one with. CPU slots share the memory evenly. Pure.
std::vector<v1::Slot> MakeSlots(const std::vector<GpuReading>& gpus,
                                std::optional<uint32_t> cpu_slots, uint32_t cpus,
                                uint64_t memory_bytes);

// The address of this machine on the way to `host`: 127.0.0.1 for a loopback host. UNAVAILABLE: no
// route, or the name is not known.
absl::StatusOr<std::string> AddressTowards(const std::string& host);

}  // namespace muster::worker
