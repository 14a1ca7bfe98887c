// Finds the checkpoint to resume from: the newest that is whole. Rank 0 asks, the others are told.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ckpt/verifier.h"
#include "common/fs/file_system.h"

namespace muster {

struct CheckpointCandidate {
  std::string path;
  int64_t step = 0;
  std::string manifest_sha256;  // hex; empty: not registered with the controller
  // Of the job that wrote it, where that is another one than the request's; 0: the request's own.
  uint64_t job_id = 0;
  std::string job_name = {};
};

struct FoundCheckpoint {
  std::string path;
  VerifiedCheckpoint checkpoint;
  bool adopted = false;       // whole, but unknown to the controller: the caller must register it
  bool of_other_job = false;  // checkpoint.manifest says whose
};

struct FindRequest {
  std::string root;  // the job's own checkpoint folder
  uint64_t job_id = 0;
  std::string job_name;
  uint32_t attempt = 0;                         // of the caller
  std::vector<CheckpointCandidate> registered;  // as the controller gave them
  // A candidate was passed over. DATA_LOSS: its bytes do not match; other codes: it could not be
  // read, here and now, which says nothing of it.
  std::function<void(const CheckpointCandidate&, const absl::Status&)> on_bad;
  VerifyProgress progress;
  // Whether the caller can go on from one that is whole; may be none. DATA_LOSS: its content cannot
  // be read, and the next one is tried; any other failure ends the search.
  std::function<absl::Status(const FoundCheckpoint&)> usable = nullptr;
};

// Tries candidates, rereading each in full: the job's own by falling step, then those of other jobs
// in their order. Beside the registered ones it looks at
// published folders in `root` that the newest earlier attempt wrote past the newest registered step
// and died before it could register. Nothing when there is no candidate: a first start. Never
// "nothing" when one was registered: then the first one's error (DATA_LOSS, NOT_FOUND, UNAVAILABLE,
// ...), because a run must not silently start from scratch.
absl::StatusOr<std::optional<FoundCheckpoint>> FindCheckpoint(FileSystem& fs,
                                                              const FindRequest& request);

}  // namespace muster
