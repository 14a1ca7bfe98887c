// How much memory this rank holds: resident pages on the CPU, the caching allocator's bytes on
// CUDA.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace muster::worker {

struct MemoryUse {
  int64_t now_bytes = 0;
  int64_t peak_bytes = 0;
};

MemoryUse MeasureMemory(c10::Device device);

// Whether the kernel backs most of this process's memory with huge pages.
bool MostlyHugePages();

}  // namespace muster::worker
