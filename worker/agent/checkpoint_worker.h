// Rereads and deletes checkpoints by assignment, on a side thread of its own, so that heartbeats go
// on beside minutes of I/O, and a mount whose server is gone does not hold up the agent's end.
//
// One assignment at a time, in order. Results come as tasks on the agent's loop. Used by the agent
// only, on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/fs/file_system.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/mailbox.h"
#include "worker/agent/side_threads.h"

namespace muster::worker {

struct CheckpointOutcome {
  uint64_t outbox_seq = 0;
  v1::WorkerMessage result;  // a VerifyResult or a DeleteResult, when there is no refusal
  // Not empty: it could not be read, so nothing is known; to be tried again later.
  std::string refusal;
};

class CheckpointWorker {
 public:
  static constexpr size_t kMaxQueued = 10'000;

  // `done` is called on the loop. `fs` outlives the worker, and what hangs in it.
  CheckpointWorker(FileSystem& fs, std::shared_ptr<Mailbox> mailbox,
                   std::function<void(CheckpointOutcome)> done);
  // Gives up what is under way, and leaves it behind when it hangs; its assignment is repeated to
  // the next agent, since it was not acknowledged.
  ~CheckpointWorker() { *alive_ = false; }
  CheckpointWorker(const CheckpointWorker&) = delete;
  CheckpointWorker& operator=(const CheckpointWorker&) = delete;

  // False when too many wait already.
  bool Verify(const v1::VerifyCheckpoint& assignment);
  bool Delete(const v1::DeleteCheckpoint& assignment);

 private:
  using Job = std::function<CheckpointOutcome()>;

  bool Enqueue(Job job);

  FileSystem& fs_;
  const std::function<void(CheckpointOutcome)> done_;
  size_t queued_ = 0;  // and under way
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  SideThreads threads_;  // last: it uses all of the above
};

// Removes a published checkpoint folder, its manifest first, so that what a crash leaves is never
// taken for whole. INVALID_ARGUMENT when the path is not absolute or its last part is no checkpoint
// folder's name. OK when it is gone already.
absl::Status DeleteCheckpointFolder(FileSystem& fs, const std::string& path);

}  // namespace muster::worker
