// What JobService keeps open: watches of a job and calls that wait until a checkpoint was reread.
// Turned by a StreamPump.
#pragma once

#include <grpcpp/server_context.h>

#include <memory>

#include "controller/api/calls/service_call.h"
#include "controller/api/streams/out_stream.h"
#include "controller/engine/engine.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

// Sends the job now and when it has changed; ends with it. A slow client skips versions, it is
// never queued for.
class JobWatch final : public OutStream<v1::WatchJobResponse> {
 public:
  JobWatch(CallGate& gate, const Engine& engine, uint64_t job_id)
      : OutStream(gate, "WatchJob"), engine_(engine), job_id_(job_id) {}

  bool Turn() override;

 private:
  const Engine& engine_;
  const uint64_t job_id_;
  std::shared_ptr<const Job> sent_;
};

// Answers when an agent has reread the checkpoint.
class VerificationWait final : public Pumped {
 public:
  // How long a reread may take; DEADLINE_EXCEEDED afterwards, though the verification itself goes
  // on.
  static constexpr absl::Duration kLongestWait = absl::Minutes(10);

  VerificationWait(UnaryCall* call, grpc::CallbackServerContext* context, Clock& clock,
                   const Engine& engine, const Checkpoint& asked,
                   v1::VerifyCheckpointResponse* response)
      : call_(call),
        context_(context),
        clock_(clock),
        engine_(engine),
        id_(asked.id),
        rereads_before_(asked.rereads),
        give_up_at_(clock.SinceBoot() + kLongestWait),
        response_(response) {}

  bool Turn() override;
  void Abort(const absl::Status& why) override;

 private:
  UnaryCall* const call_;
  grpc::CallbackServerContext* const context_;
  Clock& clock_;
  const Engine& engine_;
  const uint64_t id_;
  const uint32_t rereads_before_;
  const absl::Duration give_up_at_;
  v1::VerifyCheckpointResponse* const response_;
};

}  // namespace muster::controller
