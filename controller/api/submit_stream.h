// One client's SubmitJobs stream: each message of submits is checked, goes to the engine as a
// whole, and is answered by one message when the last of its submits is durable or refused.
//
// Messages are answered in the order in which they came. A few may wait for their commit at a time;
// until then no more is read, so that a client that is faster than the disk waits itself. A submit
// that is refused concerns nobody else; a message out of bounds ends the stream.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "controller/api/call.h"
#include "controller/engine/engine.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

class SubmitStream final
    : public grpc::ServerBidiReactor<v1::SubmitJobsRequest, v1::SubmitJobsResponse>,
      public std::enable_shared_from_this<SubmitStream> {
 public:
  static constexpr int kMaxSubmits = 256;      // in one message
  static constexpr size_t kMaxUnanswered = 4;  // messages

  // All references outlive the stream. `caller`: as CallGate::Check named it.
  SubmitStream(CallGate& gate, Engine& engine, const std::string& checkpoint_root,
               std::string caller)
      : gate_(gate),
        engine_(engine),
        checkpoint_root_(checkpoint_root),
        caller_(std::move(caller)) {
    gate_.StreamOpened("SubmitJobs");
  }

  // Hands the stream to gRPC; `allowed` not OK: it ends with that.
  static SubmitStream* Begin(std::shared_ptr<SubmitStream> stream, const absl::Status& allowed);
  // Ends the stream. OK: after what it owes; else at once, and what was not answered may have been
  // stored all the same.
  void Close(const absl::Status& status) MUSTER_EXCLUDES(mutex_);

 private:
  // One message under way. Each outcome is written by whoever answers that submit; the last one
  // hands the whole over.
  struct Batch {
    v1::SubmitJobsResponse response;
    std::atomic<int> unanswered = 0;
  };

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  absl::Status Take(v1::SubmitJobsRequest& message);
  void Answered(Batch& batch);
  void ReadOnLocked() MUSTER_REQUIRES(mutex_);
  void WriteLocked() MUSTER_REQUIRES(mutex_);
  void FinishIfIdleLocked() MUSTER_REQUIRES(mutex_);

  CallGate& gate_;
  Engine& engine_;
  const std::string& checkpoint_root_;
  const std::string caller_;
  std::shared_ptr<SubmitStream> self_;  // until OnDone
  v1::SubmitJobsRequest incoming_;      // of the read under way

  Mutex mutex_;
  // Not answered, in their order; the first one is being written while writing_.
  std::deque<std::shared_ptr<Batch>> batches_ MUSTER_GUARDED_BY(mutex_);
  bool reading_ MUSTER_GUARDED_BY(mutex_) = false;
  bool writing_ MUSTER_GUARDED_BY(mutex_) = false;
  bool ended_ MUSTER_GUARDED_BY(mutex_) = false;
  bool finished_ MUSTER_GUARDED_BY(mutex_) = false;
  absl::Status status_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
