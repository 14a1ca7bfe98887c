// Checkpoints of a command: it writes a file, or a folder of files, and hands it over by an `offer`
// line; its agent copies it into a checkpoint folder with a manifest (common/ckpt), publishes that
// under its lease and reports it, as a trainer's rank 0 does by itself. From there on verification,
// retention and resume are the same for both.
//
// The files are opened beneath the command's own folders, so that no link which it plants makes the
// agent read for it what lies elsewhere. The copy is made, hashed and fsynced on a side thread, one
// at a time, and given up when a file does not answer; what is given up is removed there too. The
// command goes on meanwhile, and is told when the checkpoint is committed: until then it must leave
// what it offered as it is. Lives on the event loop.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ckpt/checkpoint_root.h"
#include "common/ckpt/checkpoint_writer.h"
#include "common/fs/file_system.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/base/path_watch.h"
#include "worker/agent/base/side_threads.h"
#include "worker/agent/command/job_checkpoint_files.h"
#include "worker/link/link_messages.h"

namespace muster::worker {

class CommandCheckpoints {
 public:
  // Offers that may wait for the one under way.
  static constexpr size_t kMaxWaiting = 16;

  struct Options {
    v1::Fence fence;
    std::string job_name;
    std::string root;                      // the job's own checkpoint folder
    CheckpointRoot holder;                 // in which that lies
    std::vector<std::string> offer_roots;  // what is offered lies beneath one of these
    // The folder of all ranks of the agent, absolute: neither it nor what contains it (a workdir of
    // `/`) is an offer root. "": any folder may be one.
    std::string ranks_root;
    // With a file that does not answer, from when it was touched.
    absl::Duration patience = absl::InfiniteDuration();
    std::optional<mode_t> file_mask;  // the job's umask; nothing: the agent's
  };
  struct Callbacks {
    std::function<bool()> may_publish;
    std::function<void(v1::CheckpointEvent)> report;
    // An offer's end, to the connection that made it: committed, or why not.
    std::function<void(uint64_t connection, const CommittedLine&)> answer;
    // Nothing is under way any more.
    std::function<void()> on_idle;
  };
  // All outlive it, but it may go while a copy is being made; `fs` outlives the copy too, and
  // `threads` the turns of the loop in which it comes back.
  CommandCheckpoints(FileSystem& fs, SideThreads& threads, Options options, Callbacks callbacks);
  ~CommandCheckpoints();
  CommandCheckpoints(const CommandCheckpoints&) = delete;
  CommandCheckpoints& operator=(const CommandCheckpoints&) = delete;

  // `line` is of kind offer.
  void Offer(uint64_t connection, const CheckpointLine& line);
  // The lease may hold again.
  void TryPublish();
  // Call about once a second.
  void GiveUpWhatHangs();
  // The controller's answer to the commit of this step.
  void OnAck(int64_t step, const std::string& error);

  // What was offered is published and reported, or failed; acknowledgements may be missing.
  bool idle() const { return waiting_.empty() && !working_; }

 private:
  struct Offered {
    uint64_t connection = 0;
    CheckpointLine line;
  };
  // Whoever lets go of it last need not wait for the disk: Remove does that, on a side thread.
  struct Written {
    ~Written() {
      if (writer != nullptr) writer->Leave();
    }
    std::shared_ptr<PathWatch> watch;
    std::unique_ptr<JobCheckpointFiles> files;  // of the writer
    std::unique_ptr<CheckpointWriter> writer;   // null: it was removed
    std::string manifest_sha256;
  };
  using WrittenPtr = std::shared_ptr<Written>;

  void StartNext();
  // A job of this turn; `watch_` is its own.
  void Enqueue(SideThreads::Job job);
  void OnWritten(absl::StatusOr<WrittenPtr> written);
  void OnPublished(const absl::Status& status);
  void Fail(const absl::Status& status);
  // Removes what was not published.
  static void Remove(SideThreads& threads, WrittenPtr written);
  v1::CheckpointEvent MakeEvent(v1::CheckpointEvent::Kind kind) const;

  FileSystem& fs_;
  SideThreads& threads_;
  const Options options_;
  const Callbacks callbacks_;
  std::deque<Offered> waiting_;
  bool working_ = false;
  Offered current_;     // while working_
  WrittenPtr written_;  // waits for the lease, or is being published
  bool publishing_ = false;
  std::shared_ptr<PathWatch> watch_;  // of what is under way on a thread, or waits for one
  SideThreads::JobId job_ = 0;        // that
  bool began_ = false;                // it has a thread
  uint64_t turn_ = 0;                 // what comes back for an earlier one was given up
  std::deque<Offered> unacknowledged_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::worker
