// One agent's Control stream. Reads what the agent says and hands it to the engine; writes
// welcomes, acknowledgements, answers and assignments from one bounded queue, what waits there in
// one message. What comes in one message is posted as a whole. It is the engine's WorkerLink to
// that agent.
//
// Nothing here decides. A report that could not be stored ends the stream, and the agent comes
// back and repeats it; but not for want of room on the disk, since it could not be stored then
// either: the stream goes on, and ends only once there is room again.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/rpc/packed_queue.h"
#include "common/rpc/peer_certificate.h"
#include "controller/api/calls/service_call.h"
#include "controller/api/convert/convert.h"
#include "controller/api/streams/two_way_stream.h"
#include "controller/engine/engine.h"
#include "controller/engine/worker_link.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::controller {

class ControlStream final : public TwoWayStream<v1::WorkerMessage, v1::ControllerMessage>,
                            public WorkerLink,
                            public std::enable_shared_from_this<ControlStream> {
 public:
  // An agent that does not read is given up when so many messages, or so many bytes, wait for it.
  static constexpr size_t kMaxQueued = 16384;
  static constexpr size_t kMaxQueuedBytes = 64 << 20;
  // So many reports may wait for their commit before the next message is read.
  static constexpr int kMaxUnanswered = 256;

  // `sender`: whom the agent's certificate is for (common/rpc/peer_certificate.h).
  ControlStream(CallGate& gate, Engine& engine, PeerNames sender)
      : TwoWayStream(gate, "Control"), engine_(engine), sender_(std::move(sender)) {}

  // WorkerLink.
  void Send(const Assignment& assignment) override;
  void Close(const absl::Status& status) override { TwoWayStream::Close(status); }

 private:
  absl::Status Take(v1::WorkerMessage& message) override;
  bool MayReadLocked() const override MUSTER_REQUIRES(mutex_) {
    return !awaits_welcome_ && unanswered_ < kMaxUnanswered;
  }
  const v1::ControllerMessage* NextLocked() override MUSTER_REQUIRES(mutex_);
  void DropWaitingLocked() override MUSTER_REQUIRES(mutex_) { queue_ = {}; }
  absl::Duration PatienceLocked() const override MUSTER_REQUIRES(mutex_);
  void OnOver() override;

  // Each returns what is wrong with the message itself.
  absl::Status HandleHello(const v1::WorkerMessage& message);
  absl::Status Handle(const v1::WorkerMessage& message);
  absl::Status HandleHeartbeat(const v1::Heartbeat& heartbeat);
  absl::Status HandleCheckpointEvent(const v1::CheckpointEvent& event, const ReportSource& source);
  void HandleStore(const v1::StoreRequest& request);
  // Posts a numbered report: EventAck after the commit.
  void PostReport(Event event, uint64_t event_seq);
  // Lets the event be posted with those of the same message, and counts it as unanswered until the
  // result comes; `done` gives what that means for the stream to Answered.
  void PostCounted(Event event, EventDone done);
  void Answered(const absl::Status& stream_status);
  // The same for a report of whatever kind: what its answer means for the stream.
  void AnsweredReport(const EventResult& result);

  void Write(v1::ControllerMessage message) MUSTER_EXCLUDES(mutex_);

  Engine& engine_;
  const PeerNames sender_;
  bool said_hello_ = false;  // by Take only
  std::string worker_;       // set by the Hello, before anything else is read
  std::string incarnation_;
  std::vector<Engine::Posted> posts_;  // of the message in hand; by Take only

  PackedQueue<v1::ControllerMessage> queue_ MUSTER_GUARDED_BY(mutex_);
  v1::ControllerMessage outgoing_ MUSTER_GUARDED_BY(mutex_);  // of the write under way
  int unanswered_ MUSTER_GUARDED_BY(mutex_) = 0;
  bool awaits_welcome_ MUSTER_GUARDED_BY(mutex_) = false;
  bool connected_ MUSTER_GUARDED_BY(mutex_) = false;    // the engine knows this link
  bool owes_repeat_ MUSTER_GUARDED_BY(mutex_) = false;  // a report found no room
};

}  // namespace muster::controller
