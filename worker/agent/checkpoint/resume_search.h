// Finds the checkpoint that a command's gang resumes from, as a trainer's rank 0 does by itself:
// the newest one that proves whole when it is read. Blocking; for a side thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/fs/file_system.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::worker {

struct ResumeFound {
  // Not OK: there are checkpoints, but none is whole or could be read.
  absl::Status status;
  std::string path;  // empty: start from nothing
  int64_t step = 0;
  // What the controller should hear: broken ones, and a whole one that it does not know.
  std::vector<v1::CheckpointEvent> events;
};

// `keep_going` is asked now and then.
ResumeFound SearchResume(FileSystem& fs, const v1::StartRanks& start,
                         const std::function<bool()>& keep_going);

// Removes what attempts before this one left half written, where the root is seen. The start needs
// not wait for it: what each kill in a save leaves may be large, and slow to go.
void RemoveLeftHalfWritten(FileSystem& fs, const v1::StartRanks& start);

}  // namespace muster::worker
