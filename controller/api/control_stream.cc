#include "controller/api/control_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/base/version.h"

namespace muster::controller {
namespace {

constexpr size_t kMaxReasonBytes = 1024;  // longer ones are cut: they are for people

absl::Status SpeakAgain(const absl::Status& why) {
  return absl::UnavailableError(
      absl::StrCat("not stored, connect again and repeat it: ", why.message()));
}

v1::Welcome WelcomeOf(const Engine& engine, const EventResult& result) {
  v1::Welcome welcome;
  welcome.set_term(engine.snapshot()->term);
  welcome.set_heartbeat_interval_ms(absl::ToInt64Milliseconds(engine.options().heartbeat_interval));
  welcome.set_lease_ms(absl::ToInt64Milliseconds(engine.options().lost_after));
  welcome.set_controller_version(Version());
  for (const StaleRank& stale : result.stale) {
    v1::Welcome::StaleRank* row = welcome.add_stale();
    row->set_job_id(stale.job_id);
    row->set_attempt(stale.attempt);
    row->set_rank(stale.rank);
  }
  return welcome;
}

}  // namespace

ControlStream* ControlStream::Begin(std::shared_ptr<ControlStream> stream,
                                    const absl::Status& allowed) {
  ControlStream* raw = stream.get();
  raw->self_ = std::move(stream);
  if (!allowed.ok()) {
    raw->Close(allowed);
    return raw;
  }
  MutexLock lock(raw->mutex_);
  raw->ReadOnLocked();
  return raw;
}

void ControlStream::Send(const Assignment& assignment) { Write(ToProto(assignment)); }

void ControlStream::Close(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (ended_) return;
  ended_ = true;
  status_ = status;
  // What waits is void: the agent gets the status, and comes back. The first one may be on its way.
  if (!queue_.empty()) queue_.erase(queue_.begin() + 1, queue_.end());
  FinishIfIdleLocked();
}

void ControlStream::Write(v1::ControllerMessage message) {
  const size_t bytes = message.ByteSizeLong();  // also fills the cache that the write reads
  bool is_stuck = false;
  {
    MutexLock lock(mutex_);
    if (ended_) return;
    // An acknowledgement that waits behind the one being written vouches for what this one would.
    if (message.has_event_ack() && queue_.size() > 1 && queue_.back().has_event_ack()) {
      queued_bytes_ += bytes - queue_.back().ByteSizeLong();
      queue_.back() = std::move(message);
      return;
    }
    is_stuck = queue_.size() >= kMaxQueued || queued_bytes_ + bytes > kMaxQueuedBytes;
    if (!is_stuck) {
      queued_bytes_ += bytes;
      queue_.push_back(std::move(message));
      if (queue_.size() == 1) StartWrite(&queue_.front());
    }
  }
  if (is_stuck) Close(absl::ResourceExhaustedError("the agent does not read its messages"));
}

void ControlStream::ReadOnLocked() {
  if (reading_ || ended_ || unanswered_ >= kMaxUnanswered) return;
  reading_ = true;
  StartRead(&incoming_);
}

void ControlStream::FinishIfIdleLocked() {
  if (!ended_ || finished_ || !queue_.empty()) return;
  finished_ = true;
  Finish(ToGrpc(status_));
}

void ControlStream::OnWriteDone(bool ok) {
  MutexLock lock(mutex_);
  queued_bytes_ -= std::min(queued_bytes_, queue_.front().ByteSizeLong());
  queue_.pop_front();
  if (!ok) {
    queue_.clear();
    if (!ended_) status_ = absl::UnavailableError("the agent went away");
    ended_ = true;
  }
  if (!queue_.empty()) {
    StartWrite(&queue_.front());
    return;
  }
  FinishIfIdleLocked();
}

void ControlStream::OnCancel() { Close(absl::CancelledError("the agent went away")); }

void ControlStream::OnDone() {
  absl::StatusCode code;
  bool connected = false;
  {
    MutexLock lock(mutex_);
    code = status_.code();
    connected = connected_;
  }
  gate_.StreamClosed("Control", code);
  if (connected) engine_.Disconnect(worker_, incarnation_, this);
  self_.reset();  // the last line: it may delete this
}

void ControlStream::OnReadDone(bool ok) {
  // reading_ stays set until the message is handled: an answer to an earlier one, on another
  // thread, must not start a read over it.
  if (!ok) {
    Close(absl::OkStatus());  // the agent said all that it had to say
    return;
  }
  if (!said_hello_) {
    if (!incoming_.has_hello()) {
      Close(absl::InvalidArgumentError("the first message must be a hello"));
      return;
    }
    said_hello_ = true;
    HandleHello(incoming_.hello());
    return;  // what follows is read when the engine knows the worker
  }
  const absl::Status status = Handle(incoming_);
  if (!status.ok()) {
    Log(LogLevel::kWarning, "bad_worker_message",
        {{"worker", worker_}, {"error", status.ToString()}});
    Close(status);
    return;
  }
  MutexLock lock(mutex_);
  reading_ = false;
  ReadOnLocked();
}

void ControlStream::HandleHello(const v1::Hello& hello) {
  absl::Status status = CheckProtocolVersion(
      hello.protocol_version(), absl::StrCat("the agent ", CutUtf8(hello.version(), 32)));
  absl::StatusOr<WorkerHello> event;
  if (status.ok()) {
    event = FromProto(hello);
    status = event.status();
  }
  if (!status.ok()) {
    Log(LogLevel::kWarning, "hello_refused",
        {{"worker", CutUtf8(hello.worker_name(), 64)}, {"error", status.ToString()}});
    Close(status);
    return;
  }
  worker_ = event->worker;
  incarnation_ = event->incarnation;
  {
    MutexLock lock(mutex_);
    connected_ = true;  // Disconnect may come before the answer, but never before Connect
    reading_ = false;
  }
  engine_.Connect(*std::move(event), shared_from_this(),
                  [self = shared_from_this()](const EventResult& result) {
                    if (!result.status.ok()) {
                      self->Close(result.status);
                      return;
                    }
                    v1::ControllerMessage message;
                    *message.mutable_welcome() = WelcomeOf(self->engine_, result);
                    self->Write(std::move(message));
                    MutexLock lock(self->mutex_);
                    self->ReadOnLocked();
                  });
}

absl::Status ControlStream::Handle(const v1::WorkerMessage& message) {
  const ReportSource source{worker_, incarnation_, message.event_seq()};
  switch (message.body_case()) {
    case v1::WorkerMessage::kHello:
      return absl::InvalidArgumentError("a second hello on one stream");
    case v1::WorkerMessage::kHeartbeat:
      return HandleHeartbeat(message.heartbeat());
    case v1::WorkerMessage::kAssignmentAck:
      PostCounted(AssignmentAcked{worker_, incarnation_, message.assignment_ack().outbox_seq(),
                                  CutUtf8(message.assignment_ack().refusal(), kMaxReasonBytes)},
                  [self = shared_from_this()](const EventResult& result) {
                    self->Answered(result.status.ok() || result.fenced ? absl::OkStatus()
                                                                       : SpeakAgain(result.status));
                  });
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
      PostCounted(
          WorkerNotice{worker_, incarnation_, CutUtf8(message.notice().message(), kMaxReasonBytes),
                       absl::Milliseconds(message.notice().grace_ms())},
          [self = shared_from_this()](const EventResult& result) {
            self->Answered(result.status.ok() ? absl::OkStatus() : SpeakAgain(result.status));
          });
      return absl::OkStatus();
    case v1::WorkerMessage::BODY_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a message of no known kind");
}

absl::Status ControlStream::HandleHeartbeat(const v1::Heartbeat& heartbeat) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<RankStatus> ranks, FromProto(heartbeat.ranks()));
  MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<const WorkerUse> use, UseOf(heartbeat));
  PostCounted(WorkerHeartbeat{worker_, incarnation_, std::move(ranks), std::move(use)},
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
    self->Answered(settled ? absl::OkStatus() : SpeakAgain(result.status));
  });
  return absl::OkStatus();
}

void ControlStream::PostReport(Event event, uint64_t event_seq) {
  PostCounted(std::move(event), [self = shared_from_this(), event_seq](const EventResult& result) {
    const bool settled = result.status.ok() || result.fenced;
    if (settled) {
      v1::ControllerMessage message;
      message.mutable_event_ack()->set_event_seq(event_seq);
      self->Write(std::move(message));
    }
    self->Answered(settled ? absl::OkStatus() : SpeakAgain(result.status));
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
  engine_.Post(std::move(event), std::move(done));
}

void ControlStream::Answered(const absl::Status& stream_status) {
  {
    MutexLock lock(mutex_);
    --unanswered_;
    if (stream_status.ok()) ReadOnLocked();
  }
  if (!stream_status.ok()) Close(stream_status);
}

}  // namespace muster::controller
