// Rereads and deletes checkpoints by assignment, on side threads, so that heartbeats go on beside
// minutes of I/O, and a mount whose server is gone does not hold up the agent's end.
//
// Of one checkpoint root one assignment at a time, in order; a root that hangs holds up no other.
// An assignment that is on one thing for longer than the patience is refused, with all that wait
// for the same root, and so is what comes for it until it answers. Where another mount has taken
// the place of the one that hangs, the assignment is left behind there, and what comes is carried
// out on the new mount. Results come as tasks on the agent's loop. Used by the agent only, on the
// loop.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/base/mailbox.h"
#include "worker/agent/base/path_watch.h"
#include "worker/agent/base/side_threads.h"
#include "worker/agent/base/timers.h"
#include "worker/agent/checkpoint/mount_point.h"

namespace muster::worker {

struct CheckpointOutcome {
  uint64_t outbox_seq = 0;
  v1::WorkerMessage result;  // a VerifyResult or a DeleteResult, when there is no refusal
  // Not empty: it could not be read, so nothing is known; to be tried again later.
  std::string refusal;
};

struct CheckpointExecutorOptions {
  absl::Duration patience;
  // What mounts there are (mount_point.h). Asked on the loop, once in `mounts_every` at most.
  std::function<std::string()> mount_info = ReadMountInfo;
  absl::Duration mounts_every = absl::Seconds(5);
};

class CheckpointExecutor {
 public:
  static constexpr size_t kMaxQueued = 10'000;
  // That are read or deleted in at the same time; others wait, unless all of these hang. Of them
  // on the same mount, which hang together.
  static constexpr size_t kMaxRoots = 16;
  static constexpr size_t kMaxRootsOnMount = 4;

  // `done` is called on the loop. `fs` outlives this, and what hangs in it; `timers` calls nothing
  // more once this is gone.
  CheckpointExecutor(FileSystem& fs, Timers& timers, std::shared_ptr<Mailbox> mailbox,
                     CheckpointExecutorOptions options,
                     std::function<void(CheckpointOutcome)> done);
  // Gives up what is under way, and leaves it behind when it hangs; its assignment is repeated to
  // the next agent, since it was not acknowledged.
  ~CheckpointExecutor() { *alive_ = false; }
  CheckpointExecutor(const CheckpointExecutor&) = delete;
  CheckpointExecutor& operator=(const CheckpointExecutor&) = delete;

  // False when too many wait already.
  bool Verify(const v1::VerifyCheckpoint& assignment);
  bool Delete(const v1::DeleteCheckpoint& assignment);

 private:
  // What an assignment and its side thread share.
  struct Work {
    explicit Work(const std::string& mount) : watch(mount) {}
    PathWatch watch;
    std::atomic<bool> given_up = false;
    std::shared_ptr<const std::atomic<bool>> stopping;  // the agent
    bool goes_on() const { return !given_up && !*stopping; }
  };
  using Job = std::function<CheckpointOutcome(Work&)>;
  struct Assignment {
    uint64_t outbox_seq = 0;
    Job job;
  };
  struct Root {
    std::deque<Assignment> waiting;  // behind the one that is under way
    absl::Status stall;              // not OK: that one hangs, and was refused
  };

  static CheckpointOutcome DoVerify(FileSystem& fs, Work& work,
                                    const v1::VerifyCheckpoint& assignment);
  static CheckpointOutcome DoDelete(FileSystem& fs, Work& work,
                                    const v1::DeleteCheckpoint& assignment);
  // A root's path, and the mount on which it lies.
  using RootKey = std::pair<std::string, std::string>;
  bool Enqueue(const std::string& path, Assignment assignment);
  void Begin(const RootKey& root, Assignment assignment);
  void OnDone(const RootKey& root, CheckpointOutcome outcome);
  void OnStall(const RootKey& root, uint64_t outbox_seq, const absl::Status& stall, bool began);
  void Answer(CheckpointOutcome outcome);

  FileSystem& fs_;
  Timers& timers_;
  const absl::Duration patience_;
  MountTable mounts_;
  const std::function<void(CheckpointOutcome)> done_;
  std::map<RootKey, Root> roots_;  // those with an assignment under way
  size_t queued_ = 0;              // and under way, unless refused
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  SideThreads threads_;  // last: it uses all of the above
};

// Removes a published checkpoint folder, its manifest first, so that what a crash leaves is never
// taken for whole. INVALID_ARGUMENT when the path is not absolute or its last part is no checkpoint
// folder's name. OK when it is gone already.
// `goes_on` is asked before the first removal; CANCELLED when it says no: then all of it is there.
absl::Status DeleteCheckpointFolder(
    FileSystem& fs, const std::string& path,
    const std::function<bool()>& goes_on = [] { return true; });

}  // namespace muster::worker
