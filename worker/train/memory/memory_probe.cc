#include "worker/train/memory/memory_probe.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef MUSTER_WITH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "common/base/unique_fd.h"

namespace muster::worker {
namespace {

// The second number of /proc/self/statm: resident pages. A pseudo file has no size, so common/fs
// cannot read it.
int64_t ResidentBytes() {
  const UniqueFd fd(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  char text[128];
  const ssize_t got = fd.valid() ? ::read(fd.get(), text, sizeof(text) - 1) : -1;
  if (got <= 0) return 0;
  text[got] = '\0';
  char* second = nullptr;
  std::strtoll(text, &second, 10);
  return std::strtoll(second, nullptr, 10) * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

MemoryUse MeasureMemory(c10::Device device) {
#ifdef MUSTER_WITH_CUDA
  if (device.is_cuda()) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    const auto& bytes = stats.allocated_bytes[0];  // 0: the aggregate over all pools
    return {bytes.current, bytes.peak};
  }
#else
  (void)device;
#endif
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const int64_t now = ResidentBytes();
  return {now, std::max<int64_t>(now, int64_t{usage.ru_maxrss} * 1024)};
}

bool MostlyHugePages() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  int64_t anonymous = 0, huge = 0;  // KiB
  std::string line;
  while (std::getline(rollup, line)) {
    std::istringstream words(line);
    std::string key;
    int64_t kib = 0;
    words >> key >> kib;
    if (key == "Anonymous:") anonymous = kib;
    if (key == "AnonHugePages:") huge = kib;
  }
  return 2 * huge > anonymous;
}

}  // namespace muster::worker
