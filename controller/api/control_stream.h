// One agent's Control stream. Reads what the agent says and hands it to the engine; writes
// welcomes, acknowledgements, answers and assignments, one after another from one bounded queue. It
// is the engine's WorkerLink to that agent.
//
// Nothing here decides. A report that could not be made durable ends the stream: the agent comes
// back and repeats it.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "controller/api/call.h"
#include "controller/api/convert.h"
#include "controller/engine/engine.h"
#include "controller/engine/worker_link.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::controller {

class ControlStream final
    : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::ControllerMessage>,
      public WorkerLink,
      public std::enable_shared_from_this<ControlStream> {
 public:
  // An agent that does not read is given up when so many messages, or so many bytes, wait for it.
  static constexpr size_t kMaxQueued = 16384;
  static constexpr size_t kMaxQueuedBytes = 64 << 20;
  // So many reports may wait for their commit before the next message is read.
  static constexpr int kMaxUnanswered = 256;

  ControlStream(CallGate& gate, Engine& engine) : gate_(gate), engine_(engine) {
    gate_.StreamOpened("Control");
  }

  // Hands the stream to gRPC; `allowed` not OK: it ends with that.
  static ControlStream* Begin(std::shared_ptr<ControlStream> stream, const absl::Status& allowed);

  // WorkerLink.
  void Send(const Assignment& assignment) override;
  void Close(const absl::Status& status) override;

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void HandleHello(const v1::Hello& hello);
  // Each returns what is wrong with the message itself.
  absl::Status Handle(const v1::WorkerMessage& message);
  absl::Status HandleHeartbeat(const v1::Heartbeat& heartbeat);
  absl::Status HandleCheckpointEvent(const v1::CheckpointEvent& event, const ReportSource& source);
  void HandleStore(const v1::StoreRequest& request);
  // Posts a numbered report: EventAck after the commit.
  void PostReport(Event event, uint64_t event_seq);
  // Counts a message as unanswered until the result comes; gives what the result means for the
  // stream.
  void PostCounted(Event event, EventDone done);
  void Answered(const absl::Status& stream_status);

  void Write(v1::ControllerMessage message) MUSTER_EXCLUDES(mutex_);
  void ReadOnLocked() MUSTER_REQUIRES(mutex_);
  void FinishIfIdleLocked() MUSTER_REQUIRES(mutex_);

  CallGate& gate_;
  Engine& engine_;
  std::shared_ptr<ControlStream> self_;  // until OnDone
  v1::WorkerMessage incoming_;           // of the read under way
  bool said_hello_ = false;              // read callbacks only
  std::string worker_;                   // set by the Hello, before anything else is read
  std::string incarnation_;

  Mutex mutex_;
  std::deque<v1::ControllerMessage> queue_
      MUSTER_GUARDED_BY(mutex_);  // the first one is being written
  size_t queued_bytes_ MUSTER_GUARDED_BY(mutex_) = 0;
  int unanswered_ MUSTER_GUARDED_BY(mutex_) = 0;
  bool reading_ MUSTER_GUARDED_BY(mutex_) = false;
  bool connected_ MUSTER_GUARDED_BY(mutex_) = false;  // the engine knows this link
  bool ended_ MUSTER_GUARDED_BY(mutex_) = false;
  bool finished_ MUSTER_GUARDED_BY(mutex_) = false;
  absl::Status status_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
