// Rereads and deletes checkpoints by assignment, on a thread of its own, so that heartbeats go on
// beside minutes of I/O.
//
// One assignment at a time, in order. Results come as tasks on the agent's loop. Used by the agent
// only.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/fs/file_system.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/mailbox.h"

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

  // `done` is called on the loop. `fs` outlives the worker.
  CheckpointWorker(FileSystem& fs, std::shared_ptr<Mailbox> mailbox,
                   std::function<void(CheckpointOutcome)> done);
  // Gives up what is under way; its assignment is repeated to the next agent, since it was not
  // acknowledged.
  ~CheckpointWorker();
  CheckpointWorker(const CheckpointWorker&) = delete;
  CheckpointWorker& operator=(const CheckpointWorker&) = delete;

  // False when too many wait already.
  bool Verify(const v1::VerifyCheckpoint& assignment) MUSTER_EXCLUDES(mutex_);
  bool Delete(const v1::DeleteCheckpoint& assignment) MUSTER_EXCLUDES(mutex_);

 private:
  using Job = std::function<CheckpointOutcome()>;

  bool Enqueue(Job job) MUSTER_EXCLUDES(mutex_);
  void Run() MUSTER_EXCLUDES(mutex_);
  CheckpointOutcome DoVerify(const v1::VerifyCheckpoint& assignment);
  CheckpointOutcome DoDelete(const v1::DeleteCheckpoint& assignment);

  FileSystem& fs_;
  const std::shared_ptr<Mailbox> mailbox_;
  const std::function<void(CheckpointOutcome)> done_;
  std::atomic<bool> stop_ = false;
  Mutex mutex_;
  CondVar wake_;
  std::deque<Job> jobs_ MUSTER_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

// Removes a published checkpoint folder, its manifest first, so that what a crash leaves is never
// taken for whole. INVALID_ARGUMENT when the path is not absolute or its last part is no checkpoint
// folder's name. OK when it is gone already.
absl::Status DeleteCheckpointFolder(FileSystem& fs, const std::string& path);

}  // namespace muster::worker
