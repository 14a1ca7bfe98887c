// Checkpoints of a command: it writes a file, or a folder of files, and hands it over by an `offer`
// line; its agent copies it into a checkpoint folder with a manifest (common/ckpt), publishes that
// under its lease and reports it, as a trainer's rank 0 does by itself. From there on verification,
// retention and resume are the same for both.
//
// The copy is made, hashed and fsynced on the background thread, one at a time; the command goes on
// meanwhile, and is told when the checkpoint is committed: until then it must leave what it offered
// as it is. Lives on the event loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/ckpt/checkpoint_writer.h"
#include "common/fs/file_system.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/background_thread.h"
#include "worker/link/link_messages.h"

namespace muster::worker {

class CommandCheckpoints {
 public:
  // Offers that may wait for the one under way.
  static constexpr size_t kMaxWaiting = 16;

  struct Options {
    v1::Fence fence;
    std::string job_name;
    std::string root;  // the job's own checkpoint folder
  };
  struct Callbacks {
    std::function<bool()> may_publish;
    std::function<void(v1::CheckpointEvent)> report;
    // An offer's end, to the connection that made it: committed, or why not.
    std::function<void(uint64_t connection, const CommittedLine&)> answer;
    // Nothing is under way any more.
    std::function<void()> on_idle;
  };
  // All outlive it, but it may go while a copy is being made.
  CommandCheckpoints(FileSystem& fs, BackgroundThread& background, Options options,
                     Callbacks callbacks);
  ~CommandCheckpoints() { *alive_ = false; }
  CommandCheckpoints(const CommandCheckpoints&) = delete;
  CommandCheckpoints& operator=(const CommandCheckpoints&) = delete;

  // `line` is of kind offer.
  void Offer(uint64_t connection, const CheckpointLine& line);
  // The lease may hold again.
  void TryPublish();
  // The controller's answer to the commit of this step.
  void OnAck(int64_t step, const std::string& error);

  // What was offered is published and reported, or failed; acknowledgements may be missing.
  bool idle() const { return waiting_.empty() && !working_; }

 private:
  struct Offered {
    uint64_t connection = 0;
    CheckpointLine line;
  };
  struct Written {
    std::unique_ptr<CheckpointWriter> writer;
    std::string manifest_sha256;
  };

  void StartNext();
  void OnWritten(absl::StatusOr<Written> written);
  void OnPublished(const absl::Status& status);
  void Fail(const absl::Status& status);
  v1::CheckpointEvent MakeEvent(v1::CheckpointEvent::Kind kind) const;

  FileSystem& fs_;
  BackgroundThread& background_;
  const Options options_;
  const Callbacks callbacks_;
  std::deque<Offered> waiting_;
  bool working_ = false;
  Offered current_;                   // while working_
  std::shared_ptr<Written> written_;  // waits for the lease, or is being published
  bool publishing_ = false;
  std::deque<Offered> unacknowledged_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::worker
