// One client's SubmitJobs stream: each message of submits is checked, goes to the engine as a
// whole, and is answered by one message when the last of its submits is durable or refused.
//
// Messages are answered in the order in which they came. A few may wait for their commit at a time;
// until then no more is read, so that a client that is faster than the disk waits itself. A submit
// that is refused concerns nobody else; a message out of bounds ends the stream.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "controller/api/calls/known_jobs.h"
#include "controller/api/calls/service_call.h"
#include "controller/api/calls/submit_check.h"
#include "controller/api/streams/two_way_stream.h"
#include "controller/engine/engine.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

class SubmitStream final : public TwoWayStream<v1::SubmitJobsRequest, v1::SubmitJobsResponse>,
                           public std::enable_shared_from_this<SubmitStream> {
 public:
  static constexpr int kMaxSubmits = 256;      // in one message
  static constexpr size_t kMaxUnanswered = 4;  // messages

  // All references outlive the stream. `caller`: as CallGate::Enter has let it in; a stream that is
  // not allowed has none.
  SubmitStream(CallGate& gate, Engine& engine, const std::string& checkpoint_root,
               const WorkersToCome& workers_to_come, Caller caller)
      : TwoWayStream(gate, "SubmitJobs"),
        engine_(engine),
        checkpoint_root_(checkpoint_root),
        workers_to_come_(workers_to_come),
        caller_(std::move(caller)) {}

 private:
  // One message under way. Each outcome is written by whoever answers that submit; the last one
  // hands the whole over.
  struct Batch {
    v1::SubmitJobsResponse response;
    std::atomic<int> unanswered = 0;
    bool recorded = false;  // what it changed; guarded by mutex_
    std::string project;    // for the record; empty: of several
  };

  absl::Status Take(v1::SubmitJobsRequest& message) override;
  bool MayReadLocked() const override MUSTER_REQUIRES(mutex_) {
    return batches_.size() < kMaxUnanswered;
  }
  const v1::SubmitJobsResponse* NextLocked() override MUSTER_REQUIRES(mutex_);
  void WrittenLocked() override MUSTER_REQUIRES(mutex_) { batches_.pop_front(); }
  bool OwesLocked() const override MUSTER_REQUIRES(mutex_) { return !batches_.empty(); }
  absl::Status StillAllowed() const override {
    return caller_.principal == nullptr ? absl::OkStatus() : gate_.CheckAgain(caller_, "");
  }
  absl::StatusOr<Engine::Posted> PostedOf(const Caller& caller, v1::SubmitRequest& submit,
                                          KnownJobs& jobs);
  void Answered(const std::shared_ptr<Batch>& batch);

  Engine& engine_;
  const std::string& checkpoint_root_;
  const WorkersToCome& workers_to_come_;
  const Caller caller_;

  // Not answered, in their order; the first one may be on its way.
  std::deque<std::shared_ptr<Batch>> batches_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
