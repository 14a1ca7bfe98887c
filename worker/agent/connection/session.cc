#include "worker/agent/connection/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/metrics/metric_names.h"
#include "common/rpc/packed_queue.h"
#include "worker/agent/connection/repair_strings.h"

namespace muster::worker {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPauseNear = absl::Seconds(1);
constexpr absl::Duration kLongestPauseFar = absl::Seconds(5);
// A controller that accepted the call answers Hello within this time, or the call is made anew.
constexpr absl::Duration kWelcomeTimeout = absl::Seconds(10);
// What a Welcome may ask for; a controller that says less or more is taken at these.
constexpr absl::Duration kShortestHeartbeat = absl::Milliseconds(10);
constexpr absl::Duration kLongestHeartbeat = absl::Minutes(10);

// Repeating the call cannot help. After the first session only a newer agent of the same name is
// final: anything else may be a controller that is being replaced, and ranks that train are worth
// waiting for.
bool IsFinal(const absl::Status& status, bool ever_up) {
  switch (status.code()) {
    case absl::StatusCode::kAlreadyExists:
      return true;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return !ever_up;
    default:
      return false;
  }
}

// The assignment is taken, the rank runs, or it ended well: the controller need not act at once.
bool NobodyWaitsFor(const v1::WorkerMessage& message) {
  if (message.has_assignment_ack()) return message.assignment_ack().refusal().empty();
  if (!message.has_rank_event()) return false;
  return message.rank_event().kind() != v1::RankEvent::EXITED || message.rank_event().succeeded();
}

}  // namespace

Session::Session(Timers& timers, ControlConnector connect, MetricFamilies& families,
                 SessionHandler& handler, SessionOptions options)
    : timers_(timers),
      connect_(std::move(connect)),
      families_(families),
      handler_(handler),
      options_(std::move(options)),
      backoff_(kFirstPause, options_.near ? kLongestPauseNear : kLongestPauseFar, options_.seed),
      last_contact_(timers.clock().SinceBoot()),
      controller_(options_.controller) {}

Session::~Session() { Stop(); }

void Session::Start() { Connect(); }

void Session::Stop() {
  stopped_ = true;
  timers_.Cancel(timer_);
  timers_.Cancel(heartbeat_timer_);
  timers_.Cancel(say_timer_);
  if (stream_ != nullptr) stream_->Close();
  stream_.reset();
  up_ = false;
  if (options_.keeper != nullptr) options_.keeper->Rest();
}

absl::Duration Session::ControllerAway() const {
  return timers_.clock().SinceBoot() - last_contact_;
}

void Session::Connect() {
  stream_ = connect_({.on_message = [this](const v1::ControllerMessage& m) { OnMessage(m); },
                      .on_end = [this](absl::Status status) { OnEnd(status); }});
  v1::WorkerMessage message;
  *message.mutable_hello() = options_.hello;
  message.mutable_hello()->set_last_term(controller_.term);
  message.mutable_hello()->set_last_controller(controller_.id);
  message.mutable_hello()->set_last_started_ns(controller_started_ns_);
  message.mutable_hello()->set_acknowledged_event_seq(outbox_.acknowledged());
  handler_.FillHello(*message.mutable_hello());
  Send(std::move(message));
  timer_ = timers_.After(kWelcomeTimeout, [this] { OnWelcomeTimeout(); });
}

void Session::OnWelcomeTimeout() {
  Reconnect(absl::DeadlineExceededError("the controller did not answer Hello"));
}

void Session::OnEnd(const absl::Status& status) {
  if (stopped_) return;
  if (IsFinal(status, ever_up_)) return GiveUp(status);
  if (!up_ && absl::IsAborted(status)) {
    Log(LogLevel::kError, "name_held",
        {{"worker", options_.hello.worker_name()}, {"error", std::string(status.message())}});
  }
  Reconnect(status);
}

void Session::GiveUp(absl::Status why) {
  SetUp(false);
  Stop();
  handler_.OnRefused(std::move(why));
}

void Session::Reconnect(const absl::Status& why) {
  timers_.Cancel(timer_);
  timers_.Cancel(heartbeat_timer_);
  if (stream_ != nullptr) stream_->Close();
  stream_.reset();
  SetUp(false);
  const absl::Duration pause = backoff_.Next();
  const absl::Status told = options_.explain == nullptr ? why : options_.explain(why);
  Log(LogLevel::kWarning, "controller_away",
      {{"error", told.ToString()}, {"retry_ms", absl::ToInt64Milliseconds(pause)}});
  timer_ = timers_.After(pause, [this] { Connect(); });
}

void Session::SetUp(bool up) {
  if (std::exchange(up_, up) == up) return;
  families_.Set(metric::kWorkerConnected, up ? 1 : 0);
  timers_.Cancel(say_timer_);
  held_back_.clear();
  if (!up && options_.keeper != nullptr) options_.keeper->Rest();
  if (!up) handler_.OnSessionDown();
}

void Session::OnMessage(const v1::ControllerMessage& message) {
  if (message.has_welcome()) return OnWelcome(message.welcome());
  if (!up_) return Reconnect(absl::InternalError("the controller spoke before its Welcome"));
  last_contact_ = timers_.clock().SinceBoot();
  switch (message.body_case()) {
    case v1::ControllerMessage::kHeartbeatAck:
      if (lease_.Acknowledged(message.heartbeat_ack().seq())) handler_.OnLeaseRenewed();
      break;
    case v1::ControllerMessage::kEventAck:
      outbox_.OnEventAck(message.event_ack().event_seq());
      SayEvents();
      break;
    case v1::ControllerMessage::kCheckpointAck:
      outbox_.OnCheckpointAck(message.checkpoint_ack());
      handler_.OnControllerMessage(message);
      break;
    default:
      handler_.OnControllerMessage(message);
  }
}

// Where none is known there is nothing to tell another one by.
bool Session::IsAnother(const v1::Welcome& welcome) const {
  return !controller_.id.empty() && welcome.controller_id() != controller_.id;
}

void Session::OnWelcome(const v1::Welcome& welcome) {
  const bool is_another = IsAnother(welcome);
  if (is_another && ever_up_) {
    return GiveUp(absl::FailedPreconditionError(
        absl::StrCat("worker ", options_.hello.worker_name(),
                     ": another controller answers than the one that this agent has served: start "
                     "the agent again, and it follows this one")));
  }
  if (!is_another && welcome.term() < controller_.term) {
    return Reconnect(
        absl::AbortedError(absl::StrCat("a controller of term ", welcome.term(),
                                        " answered, but term ", controller_.term, " was seen")));
  }
  if (is_another) {
    Log(LogLevel::kWarning, "controller_changed",
        {{"controller", absl::BytesToHexString(welcome.controller_id())},
         {"term", welcome.term()},
         {"former_controller", absl::BytesToHexString(controller_.id)},
         {"former_term", controller_.term}});
  }
  timers_.Cancel(timer_);
  backoff_.Reset();
  controller_ = {.id = welcome.controller_id(), .term = welcome.term()};
  controller_started_ns_ = welcome.started_ns();
  ever_up_ = true;
  last_contact_ = timers_.clock().SinceBoot();
  heartbeat_interval_ = std::clamp(absl::Milliseconds(welcome.heartbeat_interval_ms()),
                                   kShortestHeartbeat, kLongestHeartbeat);
  lease_duration_ = std::max(absl::Milliseconds(welcome.lease_ms()), heartbeat_interval_);
  lease_.Begin(lease_duration_);
  Log(LogLevel::kInfo, "controller_found",
      {{"term", controller_.term},
       {"version", welcome.controller_version()},
       {"events_to_repeat", outbox_.size()}});
  families_.Add(metric::kWorkerConnectsTotal);
  families_.Set(metric::kWorkerControllerTerm, static_cast<double>(controller_.term));
  SetUp(true);
  said_up_to_ = 0;
  SayEvents();
  handler_.OnSessionUp(welcome);
  HeartbeatNow();
}

void Session::SendEvent(v1::WorkerMessage event) {
  if (outbox_.Add(std::move(event)) && up_) SayEvents();
}

void Session::SayEvents() {
  while (const v1::WorkerMessage* event = outbox_.After(said_up_to_)) {
    if (event->event_seq() > outbox_.acknowledged() + kMaxUnanswered) return;
    said_up_to_ = event->event_seq();
    Say(*event);
    if (!up_) return;
  }
}

void Session::SendMessage(v1::WorkerMessage message) {
  if (up_) Say(std::move(message));
}

void Session::Say(v1::WorkerMessage message) {
  const bool may_wait = NobodyWaitsFor(message);
  const bool is_first = held_back_.empty();
  held_back_.push_back(std::move(message));
  if (!may_wait || held_back_.size() >= kMostPacked) return SayAll();
  if (is_first) say_timer_ = timers_.After(kPatience, [this] { SayAll(); });
}

void Session::SayAll() {
  timers_.Cancel(say_timer_);
  for (v1::WorkerMessage& message : std::exchange(held_back_, {})) {
    Send(std::move(message));
  }
}

void Session::Send(v1::WorkerMessage message) {
  RepairStrings(message);
  if (message.has_heartbeat() && options_.keeper != nullptr) {
    options_.keeper->OnBeat(stream_, message, heartbeat_interval_);
  }
  stream_->Send(std::move(message));
}

void Session::HeartbeatNow() {
  if (!up_) return;
  SayAll();  // a heartbeat tells of ranks what is true after them
  timers_.Cancel(heartbeat_timer_);
  // A peer that is silent for a whole lease may be half dead: the connection stands, nobody
  // listens.
  if (ControllerAway() > lease_duration_ + heartbeat_interval_) {
    return Reconnect(absl::UnavailableError("the controller acknowledges no heartbeat"));
  }
  v1::WorkerMessage message;
  v1::Heartbeat& heartbeat = *message.mutable_heartbeat();
  heartbeat.set_seq(++heartbeat_seq_);
  for (v1::RankStatus& status : handler_.RankStatuses()) *heartbeat.add_ranks() = std::move(status);
  if (std::optional<v1::WorkerUse> use = handler_.Use()) *heartbeat.mutable_use() = *std::move(use);
  if (std::optional<v1::RootReport> roots = handler_.Roots()) {
    *heartbeat.mutable_roots() = *std::move(roots);
  }
  if (std::optional<v1::DataReport> data = handler_.Data()) {
    *heartbeat.mutable_data() = *std::move(data);
  }
  lease_.Sent(heartbeat_seq_, timers_.clock().SinceBoot());
  families_.Add(metric::kWorkerHeartbeatsTotal);
  Send(std::move(message));
  heartbeat_timer_ = timers_.After(heartbeat_interval_, [this] { HeartbeatNow(); });
}

}  // namespace muster::worker
