// Opens what lies in a rank's folder, with which its job can do anything: move it away, say, and
// leave a link, a mount or a FIFO in its place. None of these is followed or waited for, so the
// agent's loop may read here. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace muster::worker {

// The folder itself, for its list. `folder` is "<the agent's folder of ranks>/<name>". NOT_FOUND:
// it is not there, or something else is in its place.
absl::StatusOr<UniqueFd> OpenRankFolder(const std::string& folder);

// A regular file.
struct RankFile {
  UniqueFd fd;
  uint64_t size = 0;  // when it was opened
  int64_t written_ms =
      0;  // likewise: when it was last written to; Unix time by the machine's clock
};

// `name` in the folder, for reading or, with O_WRONLY, for writing. NOT_FOUND: there is no such
// file, or no regular one that lies in the rank's folder.
absl::StatusOr<RankFile> OpenRankFile(const std::string& folder, const std::string& name,
                                      int flags);
// Up to `bytes` of it from `offset` on; how many there were.
absl::StatusOr<uint64_t> ReadAt(const RankFile& file, uint64_t offset, char* buffer,
                                uint64_t bytes);
// The last `most` bytes of it at most.
absl::StatusOr<std::string> ReadEnd(const RankFile& file, uint64_t most);

// Errors as of OpenRankFolder, or the kernel's.
absl::Status RemoveRankFile(const std::string& folder, const std::string& name);

}  // namespace muster::worker
