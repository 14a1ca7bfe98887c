// Reads one sample: so many bytes of a file, the same for every format.
//
// Used by the threads that fetch. Any thread; nothing is kept.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/fs/file_system.h"

namespace muster::worker {

// Samples are held in memory whole; a larger one is refused before memory is asked for.
inline constexpr uint64_t kMostSampleBytes = 512u << 20;

// Fills `buffer`, which holds `size` bytes. DATA_LOSS naming the file, what was wanted and what is
// there, where the file has become shorter than it was when it was indexed: index it anew. Errors
// of FileSystem::ReadAt.
absl::Status ReadSample(FileSystem& fs, const std::string& path, uint64_t offset, uint64_t size,
                        char* buffer);

}  // namespace muster::worker
