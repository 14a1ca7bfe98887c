#include "tests/sim/stream.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::sim {
namespace {

absl::Status SpeakAgain(const absl::Status& why) {
  return absl::UnavailableError(absl::StrCat("not stored: ", why.message()));
}

}  // namespace

void TellReset(StreamHost& host, const std::shared_ptr<Wire>& wire) {
  if (host.engine() == nullptr || !wire->agent_end) return;
  wire->down->Send([weak = std::weak_ptr(wire)] {
    const auto held = weak.lock();
    if (held != nullptr && held->agent_end) {
      held->agent_end(absl::UnavailableError("connection reset"));
    }
  });
}

void ServerStream::OnMessage(const v1::WorkerMessage& message) {
  if (!HostLives()) return TellReset(host_, wire_);
  if (ended_) return;
  if (!connected_ && !message.has_hello()) return Close(absl::InvalidArgumentError("no hello"));
  const absl::Status status = Handle(message);
  if (!status.ok()) Close(status);
  host_.Wake();
}

void ServerStream::OnGone() {
  ended_ = true;
  Disconnect();
}

void ServerStream::Disconnect() {
  if (!std::exchange(connected_, false) || !HostLives()) return;
  host_.engine()->Disconnect(worker_, incarnation_, this);
  host_.Wake();
}

void ServerStream::Close(const absl::Status& status) {
  if (std::exchange(ended_, true) || !HostLives() || !host_.MayEmit()) return;
  wire_->down->Send([wire = std::weak_ptr(wire_), status] {
    if (const auto held = wire.lock(); held != nullptr && held->agent_end) held->agent_end(status);
  });
  // gRPC's last reaction comes later and elsewhere.
  wire_->up->Send([self = weak_from_this()] {
    if (const auto stream = self.lock()) stream->Disconnect();
  });
}

void ServerStream::Write(v1::ControllerMessage message) {
  if (ended_ || !HostLives() || !host_.MayEmit()) return;
  wire_->down->Send([at_agent = at_agent_, message = std::move(message)] { at_agent(message); });
}

void ServerStream::HandleHello(const v1::Hello& hello) {
  auto event = mc::FromProto(hello);
  if (!event.ok()) return Close(event.status());
  worker_ = event->worker;
  incarnation_ = event->incarnation;
  connected_ = true;
  host_.engine()->Connect(
      *event, shared_from_this(),
      [self = shared_from_this(), hello = *event](const mc::EventResult& result) {
        self->host_.OnHelloAnswered(hello, result);
        if (!self->HostLives()) return;  // it died of the commit that this answers
        if (!result.status.ok()) return self->Close(result.status);
        const mc::Engine& engine = *self->host_.engine();
        v1::ControllerMessage message;
        *message.mutable_welcome() =
            mc::WelcomeOf(*engine.snapshot(), result.stale, engine.options().heartbeat_interval,
                          engine.options().lost_after);
        self->Write(std::move(message));
      });
}

absl::Status ServerStream::Handle(const v1::WorkerMessage& message) {
  mc::Engine& engine = *host_.engine();
  const mc::ReportSource source{worker_, incarnation_, message.event_seq()};
  switch (message.body_case()) {
    case v1::WorkerMessage::kHello:
      HandleHello(message.hello());
      return absl::OkStatus();
    case v1::WorkerMessage::kHeartbeat: {
      auto ranks = mc::FromProto(message.heartbeat().ranks());
      if (!ranks.ok()) return ranks.status();
      auto roots = mc::RootsOf(message.heartbeat());
      if (!roots.ok()) return roots.status();
      auto data = mc::DataVerdictsOf(message.heartbeat());
      if (!data.ok()) return data.status();
      engine.Post(mc::WorkerHeartbeat{worker_, incarnation_, *std::move(ranks), nullptr,
                                      *std::move(roots), *std::move(data)},
                  [self = shared_from_this(),
                   seq = message.heartbeat().seq()](const mc::EventResult& result) {
                    self->host_.OnHeartbeatAnswered(self->worker_, result);
                    if (result.status.ok()) {
                      v1::ControllerMessage ack;
                      ack.mutable_heartbeat_ack()->set_seq(seq);
                      self->Write(std::move(ack));
                    }
                    self->Answered(result.status);
                  });
      return absl::OkStatus();
    }
    case v1::WorkerMessage::kAssignmentAck:
      engine.Post(mc::AssignmentAcked{worker_, incarnation_, message.assignment_ack().outbox_seq(),
                                      message.assignment_ack().refusal()},
                  [self = shared_from_this()](const mc::EventResult& result) {
                    self->AnsweredReport(result);
                  });
      return absl::OkStatus();
    case v1::WorkerMessage::kRankEvent: {
      auto report = mc::FromProto(message.rank_event(), source);
      if (!report.ok()) return report.status();
      const mc::Fence fence = report->fence;
      PostReport(*std::move(report), fence, message);
      return absl::OkStatus();
    }
    case v1::WorkerMessage::kCheckpointEvent: {
      auto report = mc::FromProto(message.checkpoint_event(), source);
      if (!report.ok()) return report.status();
      const mc::Fence fence = report->fence;
      PostReport(*std::move(report), fence, message);
      return absl::OkStatus();
    }
    case v1::WorkerMessage::kStoreRequest:
      HandleStore(message.store_request());
      return absl::OkStatus();
    case v1::WorkerMessage::kVerifyResult:
      PostReport(mc::FromProto(message.verify_result(), source), {}, message);
      return absl::OkStatus();
    case v1::WorkerMessage::kDeleteResult:
      PostReport(mc::FromProto(message.delete_result(), source), {}, message);
      return absl::OkStatus();
    case v1::WorkerMessage::kNotice:
      PostReport(
          mc::WorkerNotice{worker_, incarnation_, message.event_seq(), message.notice().message(),
                           absl::Milliseconds(message.notice().grace_ms()),
                           message.notice().withdrawn()},
          {}, message);
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError("a message of no known kind");
  }
}

void ServerStream::PostReport(mc::Event event, const mc::Fence& fence,
                              const v1::WorkerMessage& message) {
  host_.engine()->Post(
      std::move(event), [self = shared_from_this(), fence, message](const mc::EventResult& result) {
        self->host_.OnReportAnswered(fence, message, self->worker_, self->incarnation_, result);
        const bool settled = result.status.ok() || result.fenced;
        const bool is_commit = message.has_checkpoint_event() &&
                               message.checkpoint_event().kind() == v1::CheckpointEvent::COMMIT;
        if (settled && is_commit) {
          v1::ControllerMessage answer;
          *answer.mutable_checkpoint_ack()->mutable_fence() = mc::ToProto(fence);
          answer.mutable_checkpoint_ack()->set_step(message.checkpoint_event().step());
          answer.mutable_checkpoint_ack()->set_error(std::string(result.status.message()));
          self->Write(std::move(answer));
        }
        if (settled) {
          v1::ControllerMessage answer;
          answer.mutable_event_ack()->set_event_seq(message.event_seq());
          self->Write(std::move(answer));
        }
        self->AnsweredReport(result);
      });
}

void ServerStream::HandleStore(const v1::StoreRequest& request) {
  mc::StoreOp op;
  op.fence = mc::FromProto(request.fence());
  op.rank = request.rank();
  op.kind = static_cast<mc::StoreOp::Kind>(request.op());
  op.keys.assign(request.keys().begin(), request.keys().end());
  op.value = request.value();
  op.timeout = absl::Milliseconds(request.timeout_ms());
  host_.engine()->Store(std::move(op), [self = shared_from_this(),
                                        id = request.request_id()](mc::StoreAnswer answer) {
    v1::ControllerMessage message;
    v1::StoreReply& reply = *message.mutable_store_reply();
    reply.set_request_id(id);
    reply.set_found(answer.found);
    reply.set_value(answer.value);
    reply.set_error(answer.error);
    reply.set_timed_out(answer.timed_out);
    self->Write(std::move(message));
  });
}

void ServerStream::AnsweredReport(const mc::EventResult& result) {
  const bool settled = result.status.ok() || result.fenced;
  const bool no_room = absl::IsResourceExhausted(result.status) && !settled;
  if (no_room) owes_repeat_ = true;
  if (settled && owes_repeat_) return Close(absl::UnavailableError("there is room again"));
  Answered(settled || no_room ? absl::OkStatus() : SpeakAgain(result.status));
}

void ServerStream::Answered(const absl::Status& status) {
  if (!status.ok()) Close(status);
}

}  // namespace muster::sim
