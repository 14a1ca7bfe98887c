#include "controller/api/streams/control_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"

namespace muster::controller {
namespace {

constexpr size_t kMaxReasonBytes = 1024;  // longer ones are cut: they are for people

absl::Status SpeakAgain(const absl::Status& why) {
  return absl::UnavailableError(
      absl::StrCat("not stored, connect again and repeat it: ", why.message()));
}

}  // namespace

void ControlStream::Send(const Assignment& assignment) { Write(ToProto(assignment)); }

void ControlStream::Write(v1::ControllerMessage message) {
  MutexLock lock(mutex_);
  if (ended_) return;
  // This acknowledgement vouches for what one that waits would.
  if (message.has_event_ack() && !queue_.empty() && queue_.newest().has_event_ack()) {
    queue_.DropNewest();
  }
  queue_.Push(std::move(message));
  if (queue_.size() > kMaxQueued || queue_.bytes() > kMaxQueuedBytes) {
    EndLocked(absl::ResourceExhaustedError("the agent does not read its messages"));
  }
  GoOnLocked();
}

const v1::ControllerMessage* ControlStream::NextLocked() {
  if (queue_.empty()) return nullptr;
  outgoing_ = queue_.Take();
  return &outgoing_;
}

absl::Duration ControlStream::PatienceLocked() const {
  if (!connected_) return gate_.patience().hello;
  // A worker that is lost by then may still come back on this stream.
  return std::max(gate_.patience().silent, 2 * engine_.options().lost_after);
}

void ControlStream::OnOver() {
  bool connected = false;
  {
    MutexLock lock(mutex_);
    connected = connected_;
  }
  if (connected) engine_.Disconnect(worker_, incarnation_, this);
}

absl::Status ControlStream::Take(v1::WorkerMessage& message) {
  if (!std::exchange(said_hello_, true)) {
    absl::Status status = HandleHello(message);
    if (!status.ok()) {
      gate_.RecordRefusedAgent("WorkerService/Control",
                               absl::StrCat("worker ", CutUtf8(message.hello().worker_name(), 64)),
                               status);
      Log(LogLevel::kWarning, "hello_refused",
          {{"worker", CutUtf8(message.hello().worker_name(), 64)}, {"error", status.ToString()}});
    }
    return status;
  }
  absl::Status status = CheckPacked(message);
  if (status.ok()) {
    ForEachPacked(message, [&](const v1::WorkerMessage& each) {
      status = Handle(each);
      return status.ok();
    });
  }
  // What was said before a bad message counts.
  if (!posts_.empty()) engine_.PostAll(std::exchange(posts_, {}));
  if (!status.ok()) {
    Log(LogLevel::kWarning, "bad_worker_message",
        {{"worker", worker_}, {"error", status.ToString()}});
  }
  return status;
}

absl::Status ControlStream::HandleHello(const v1::WorkerMessage& message) {
  if (!message.has_hello() || message.more_size() > 0) {
    return absl::InvalidArgumentError("the first message must be a hello, and nothing else");
  }
  const v1::Hello& hello = message.hello();
  MUSTER_RETURN_IF_ERROR(CheckProtocolVersion(
      hello.protocol_version(), absl::StrCat("the agent ", CutUtf8(hello.version(), 32))));
  MUSTER_ASSIGN_OR_RETURN(WorkerHello event, FromProto(hello));
  MUSTER_RETURN_IF_ERROR(CheckPeerIs(event.worker, sender_));
  worker_ = event.worker;
  incarnation_ = event.incarnation;
  {
    MutexLock lock(mutex_);
    connected_ = true;  // Disconnect may come before the answer, but never before Connect
    awaits_welcome_ = true;
  }
  engine_.Connect(
      std::move(event), shared_from_this(), [self = shared_from_this()](const EventResult& result) {
        if (!result.status.ok()) {
          self->Close(result.status);
          return;
        }
        {
          MutexLock lock(self->mutex_);
          self->awaits_welcome_ = false;
        }
        v1::ControllerMessage message;
        *message.mutable_welcome() = WelcomeOf(*self->engine_.snapshot(), result.stale,
                                               self->engine_.options().heartbeat_interval,
                                               self->engine_.options().lost_after);
        self->Write(std::move(message));
      });
  return absl::OkStatus();
}

absl::Status ControlStream::Handle(const v1::WorkerMessage& message) {
  const ReportSource source{worker_, incarnation_, message.event_seq()};
  switch (message.body_case()) {
    case v1::WorkerMessage::kHello:
      return absl::InvalidArgumentError("a second hello on one stream");
    case v1::WorkerMessage::kHeartbeat:
      return HandleHeartbeat(message.heartbeat());
    case v1::WorkerMessage::kAssignmentAck:
      PostCounted(
          AssignmentAcked{worker_, incarnation_, message.assignment_ack().outbox_seq(),
                          CutUtf8(message.assignment_ack().refusal(), kMaxReasonBytes)},
          [self = shared_from_this()](const EventResult& result) { self->AnsweredReport(result); });
      return absl::OkStatus();
    case v1::WorkerMessage::kRankEvent: {
      MUSTER_ASSIGN_OR_RETURN(RankReport report, FromProto(message.rank_event(), source));
      PostReport(std::move(report), message.event_seq());
      return absl::OkStatus();
    }
    case v1::WorkerMessage::kCheckpointEvent:
      return HandleCheckpointEvent(message.checkpoint_event(), source);
    case v1::WorkerMessage::kStoreRequest:
      HandleStore(message.store_request());
      return absl::OkStatus();
    case v1::WorkerMessage::kVerifyResult:
      PostReport(FromProto(message.verify_result(), source), message.event_seq());
      return absl::OkStatus();
    case v1::WorkerMessage::kDeleteResult:
      PostReport(FromProto(message.delete_result(), source), message.event_seq());
      return absl::OkStatus();
    case v1::WorkerMessage::kNotice:
      PostReport(WorkerNotice{worker_, incarnation_, message.event_seq(),
                              CutUtf8(message.notice().message(), kMaxReasonBytes),
                              absl::Milliseconds(message.notice().grace_ms()),
                              message.notice().withdrawn()},
                 message.event_seq());
      return absl::OkStatus();
    case v1::WorkerMessage::BODY_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a message of no known kind");
}

absl::Status ControlStream::HandleHeartbeat(const v1::Heartbeat& heartbeat) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<RankStatus> ranks, FromProto(heartbeat.ranks()));
  MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<const WorkerUse> use, UseOf(heartbeat));
  MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<const RootViews> roots, RootsOf(heartbeat));
  MUSTER_ASSIGN_OR_RETURN(std::vector<DataVerdict> data, DataVerdictsOf(heartbeat));
  PostCounted(WorkerHeartbeat{worker_, incarnation_, std::move(ranks), std::move(use),
                              std::move(roots), std::move(data)},
              [self = shared_from_this(), seq = heartbeat.seq()](const EventResult& result) {
                if (result.status.ok()) {
                  v1::ControllerMessage message;
                  message.mutable_heartbeat_ack()->set_seq(seq);
                  self->Write(std::move(message));
                }
                self->Answered(result.status);
              });
  return absl::OkStatus();
}

absl::Status ControlStream::HandleCheckpointEvent(const v1::CheckpointEvent& event,
                                                  const ReportSource& source) {
  MUSTER_ASSIGN_OR_RETURN(CheckpointReport report, FromProto(event, source));
  const bool is_commit = report.kind == CheckpointReport::Kind::kCommit;
  const Fence fence = report.fence;
  const int64_t step = report.step;
  PostCounted(std::move(report), [self = shared_from_this(), is_commit, fence, step,
                                  seq = source.event_seq](const EventResult& result) {
    const bool settled = result.status.ok() || result.fenced;
    if (settled && is_commit) {
      v1::ControllerMessage message;
      *message.mutable_checkpoint_ack()->mutable_fence() = ToProto(fence);
      message.mutable_checkpoint_ack()->set_step(step);
      message.mutable_checkpoint_ack()->set_error(std::string(result.status.message()));
      self->Write(std::move(message));
    }
    if (settled) {
      v1::ControllerMessage message;
      message.mutable_event_ack()->set_event_seq(seq);
      self->Write(std::move(message));
    }
    self->AnsweredReport(result);
  });
  return absl::OkStatus();
}

void ControlStream::PostReport(Event event, uint64_t event_seq) {
  PostCounted(std::move(event), [self = shared_from_this(), event_seq](const EventResult& result) {
    const bool settled = result.status.ok() || result.fenced;
    if (settled && event_seq != 0) {
      v1::ControllerMessage message;
      message.mutable_event_ack()->set_event_seq(event_seq);
      self->Write(std::move(message));
    }
    self->AnsweredReport(result);
  });
}

void ControlStream::HandleStore(const v1::StoreRequest& request) {
  StoreOp op;
  op.fence = FromProto(request.fence());
  op.rank = request.rank();
  op.kind = static_cast<StoreOp::Kind>(request.op());
  op.keys.assign(request.keys().begin(), request.keys().end());
  op.value = request.value();
  op.timeout = absl::Milliseconds(request.timeout_ms());
  const auto done = [self = shared_from_this(), id = request.request_id()](StoreAnswer answer) {
    v1::ControllerMessage message;
    v1::StoreReply* reply = message.mutable_store_reply();
    reply->set_request_id(id);
    reply->set_found(answer.found);
    reply->set_value(std::move(answer.value));
    reply->set_error(std::move(answer.error));
    reply->set_timed_out(answer.timed_out);
    self->Write(std::move(message));
  };
  StoreAnswer refused;
  if (request.op() < v1::StoreRequest::SET || request.op() > v1::StoreRequest::COUNT) {
    refused.error = "store: an operation of no known kind";
  } else if (FindLiveRank(*engine_.snapshot(), op.fence, op.rank, worker_, incarnation_) ==
             nullptr) {
    refused.error = absl::StrCat("job ", op.fence.job_id, ": attempt ", op.fence.attempt,
                                 " has no such live rank on this worker (fenced)");
  }
  if (!refused.error.empty()) {
    done(std::move(refused));
    return;
  }
  // Not counted as unanswered: a wait ends only when a later message brings the key.
  engine_.Store(std::move(op), done);
}

void ControlStream::PostCounted(Event event, EventDone done) {
  {
    MutexLock lock(mutex_);
    ++unanswered_;
  }
  posts_.push_back({.event = std::move(event), .done = std::move(done)});
}

void ControlStream::AnsweredReport(const EventResult& result) {
  const bool settled = result.status.ok() || result.fenced;
  const bool no_room = absl::IsResourceExhausted(result.status) && !settled;
  bool repeats = false;
  {
    MutexLock lock(mutex_);
    if (no_room) owes_repeat_ = true;
    repeats = settled && owes_repeat_;
  }
  if (repeats) {
    return Answered(absl::UnavailableError("there is room again: connect again and repeat"));
  }
  Answered(settled || no_room ? absl::OkStatus() : SpeakAgain(result.status));
}

void ControlStream::Answered(const absl::Status& stream_status) {
  MutexLock lock(mutex_);
  --unanswered_;
  if (!stream_status.ok()) EndLocked(stream_status);
  GoOnLocked();
}

}  // namespace muster::controller
