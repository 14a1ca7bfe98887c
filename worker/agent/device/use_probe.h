// What of this machine is in use, by whomever: for `muster top`. Reads /proc. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "muster/v1/common.pb.h"

namespace muster::worker {

// Of the machine since boot, summed over its CPUs, in ticks of the kernel.
struct CpuTicks {
  uint64_t busy = 0;
  uint64_t all = 0;
};
// The first line of /proc/stat; nothing when it is none. Waiting for a disk is not busy. Pure.
std::optional<CpuTicks> ParseCpuTicks(absl::string_view stat);
// MemTotal less MemAvailable of /proc/meminfo, in bytes; nothing when they are not there. Pure.
std::optional<uint64_t> ParseMemoryInUse(absl::string_view meminfo);

class UseProbe {
 public:
  // CPUs since the last call; none at the first one.
  v1::WorkerUse Read(uint32_t cpus);

 private:
  std::optional<CpuTicks> last_;
};

}  // namespace muster::worker
