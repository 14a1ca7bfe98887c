#include "tests/worker/agent/fake_controller.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/rpc/channel.h"
#include "common/rpc/packed_queue.h"

namespace muster::testing {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);
// How often a fetch looks whether the other side has given it up.
constexpr absl::Duration kLookEvery = absl::Milliseconds(10);

worker::RankKey KeyFor(uint32_t rank, uint32_t attempt) { return {1, attempt, 1, rank}; }

}  // namespace

const v1::RankEvent* FakeController::Heard::FindEvent(v1::RankEvent::Kind kind, uint32_t rank,
                                                      uint32_t attempt) const {
  for (const auto& [seq, message] : events) {
    const v1::RankEvent& event = message.rank_event();
    if (message.has_rank_event() && event.kind() == kind && event.rank() == rank &&
        event.fence().attempt() == attempt) {
      return &event;
    }
  }
  return nullptr;
}

std::string FakeController::Heard::Log(uint32_t rank, uint32_t attempt) const {
  std::string text;
  const auto it = logs.find(KeyFor(rank, attempt));
  if (it == logs.end()) return text;
  for (const auto& [offset, part] : it->second) {
    if (offset != text.size()) return "";
    text += part;
  }
  return text;
}

size_t FakeController::Heard::MetricCount(uint32_t rank, uint32_t attempt) const {
  const auto it = metrics.find(KeyFor(rank, attempt));
  return it == metrics.end() ? 0 : it->second.size();
}

void FakeController::Start() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port_), grpc::InsecureServerCredentials(),
                           &port_);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterService(this);
  builder.RegisterService(&uploads_);
  AllowClientPings(builder);
  server_ = builder.BuildAndStart();
  MUSTER_CHECK(server_ != nullptr, "the fake controller cannot listen");
}

void FakeController::Stop() {
  if (server_ == nullptr) return;
  {
    MutexLock lock(mutex_);
    for (grpc::ServerContext* context : contexts_) context->TryCancel();
  }
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

std::string FakeController::address() const { return absl::StrCat("127.0.0.1:", port_); }

void FakeController::Configure(const std::function<void(Behaviour&)>& change) {
  MutexLock lock(mutex_);
  change(behaviour_);
}

bool FakeController::Send(const v1::ControllerMessage& message) {
  MutexLock write_lock(write_mutex_);
  ControlCall* call = nullptr;
  {
    MutexLock lock(mutex_);
    call = control_;
  }
  return call != nullptr && call->Write(message);
}

bool FakeController::Await(const std::function<bool(const Heard&)>& condition) {
  MutexLock lock(mutex_);
  const auto deadline = absl::Now() + kPatience;
  while (!condition(heard_)) {
    if (absl::Now() > deadline) return false;
    changed_.WaitFor(mutex_, absl::Seconds(1));
  }
  return true;
}

FakeController::Heard FakeController::heard() {
  MutexLock lock(mutex_);
  return heard_;
}

grpc::Status FakeController::Control(grpc::ServerContext* context, ControlCall* call) {
  {
    MutexLock lock(mutex_);
    if (!behaviour_.refuse.ok()) {
      ++heard_.refused;
      changed_.NotifyAll();
      return behaviour_.refuse;
    }
    contexts_.insert(context);
  }
  v1::WorkerMessage message;
  while (call->Read(&message)) {
    std::vector<v1::ControllerMessage> answers;
    MutexLock write_lock(write_mutex_);
    {
      MutexLock lock(mutex_);
      if (message.has_hello()) control_ = call;
      std::vector<uint64_t> events;
      ForEachPacked(message, [&](const v1::WorkerMessage& each) {
        if (each.event_seq() != 0) events.push_back(each.event_seq());
        HandleLocked(each, answers);
        return true;
      });
      if (!events.empty()) heard_.packed_events.push_back(std::move(events));
      changed_.NotifyAll();
    }
    for (const v1::ControllerMessage& answer : answers) call->Write(answer);
  }
  MutexLock write_lock(write_mutex_);
  MutexLock lock(mutex_);
  contexts_.erase(context);
  if (control_ == call) control_ = nullptr;
  changed_.NotifyAll();
  return grpc::Status::OK;
}

void FakeController::HandleLocked(const v1::WorkerMessage& message,
                                  std::vector<v1::ControllerMessage>& answers) {
  v1::ControllerMessage answer;
  if (message.event_seq() != 0) {
    const bool is_new = heard_.events.emplace(message.event_seq(), message).second;
    if (!is_new) ++heard_.repeated_events;
    if (is_new && message.has_notice()) TakeNoticeLocked(message.notice(), answers);
    if (!behaviour_.ack_events) return;
    if (message.checkpoint_event().kind() == v1::CheckpointEvent::COMMIT) {
      v1::CheckpointAck& ack = *answer.mutable_checkpoint_ack();
      *ack.mutable_fence() = message.checkpoint_event().fence();
      ack.set_step(message.checkpoint_event().step());
      answers.push_back(answer);
    }
    answer.mutable_event_ack()->set_event_seq(message.event_seq());
    answers.push_back(answer);
  } else if (message.has_hello()) {
    heard_.hellos.push_back(message.hello());
    v1::Welcome& welcome = *answer.mutable_welcome();
    welcome.set_term(behaviour_.term);
    welcome.set_controller_id(behaviour_.id);
    welcome.set_heartbeat_interval_ms(behaviour_.heartbeat_interval_ms);
    welcome.set_lease_ms(behaviour_.lease_ms);
    welcome.set_controller_version("fake");
    for (const auto& stale : behaviour_.stale) *welcome.add_stale() = stale;
    answers.push_back(answer);
  } else if (message.has_heartbeat()) {
    ++heard_.heartbeats;
    heard_.last_heartbeat = message.heartbeat();
    if (!behaviour_.ack_heartbeats) return;
    answer.mutable_heartbeat_ack()->set_seq(message.heartbeat().seq());
    answers.push_back(answer);
  } else if (message.has_assignment_ack()) {
    heard_.assignment_acks[message.assignment_ack().outbox_seq()] =
        message.assignment_ack().refusal();
  } else if (message.has_store_request()) {
    heard_.store_requests.push_back(message.store_request());
    AnswerStoreLocked(message.store_request(), answers);
  }
}

void FakeController::TakeNoticeLocked(const v1::Notice& notice,
                                      std::vector<v1::ControllerMessage>& answers) {
  heard_.notices.push_back(notice);
  if (!behaviour_.save_on_notice || notice.withdrawn()) return;
  for (const v1::RankStatus& rank : heard_.last_heartbeat.ranks()) {
    v1::ControllerMessage answer;
    v1::StopRanks& stop = *answer.mutable_stop_ranks();
    stop.set_outbox_seq(next_stop_seq_++);
    *stop.mutable_fence() = rank.fence();
    stop.set_mode(v1::StopRanks::SAVE);
    stop.set_grace_ms(notice.grace_ms());
    stop.set_reason("the worker is draining");
    answers.push_back(answer);
  }
}

void FakeController::AnswerStoreLocked(const v1::StoreRequest& request,
                                       std::vector<v1::ControllerMessage>& answers) {
  if (!behaviour_.answer_store) return;
  v1::ControllerMessage answer;
  v1::StoreReply& reply = *answer.mutable_store_reply();
  reply.set_request_id(request.request_id());
  std::string& value = store_[request.keys(0)];
  if (request.op() == v1::StoreRequest::SET) value = request.value();
  if (request.op() == v1::StoreRequest::ADD) {
    int64_t sum = 0;
    int64_t by = 0;
    if (!absl::SimpleAtoi(value, &sum)) sum = 0;
    if (!absl::SimpleAtoi(request.value(), &by)) by = 0;
    value = absl::StrCat(sum + by);
  }
  reply.set_found(true);
  reply.set_value(value);
  answers.push_back(answer);
}

grpc::Status FakeController::Uploads::Fetch(grpc::ServerContext* context,
                                            const v1::FetchUploadRequest*,
                                            grpc::ServerWriter<v1::FetchUploadResponse>* writer) {
  v1::FetchUploadResponse piece;
  piece.set_data("a piece");
  for (size_t sent = 0; !context->IsCancelled();) {
    bool more = false;
    {
      MutexLock lock(controller_.mutex_);
      more = sent < controller_.behaviour_.upload_pieces;
      if (!more) controller_.changed_.WaitFor(controller_.mutex_, kLookEvery);
    }
    if (more && writer->Write(piece)) ++sent;
  }
  MutexLock lock(controller_.mutex_);
  ++controller_.heard_.fetches_ended;
  controller_.changed_.NotifyAll();
  return grpc::Status::CANCELLED;
}

grpc::Status FakeController::Bulk(grpc::ServerContext* context, BulkCall* call) {
  {
    MutexLock lock(mutex_);
    contexts_.insert(context);
  }
  v1::BulkBatch batch;
  while (call->Read(&batch)) {
    bool ack = false;
    {
      MutexLock lock(mutex_);
      TakeBatchLocked(batch);
      ack = behaviour_.ack_bulk;
      changed_.NotifyAll();
    }
    v1::BulkAck answer;
    answer.set_batch_id(batch.batch_id());
    if (ack) call->Write(answer);
  }
  MutexLock lock(mutex_);
  contexts_.erase(context);
  return grpc::Status::OK;
}

void FakeController::TakeBatchLocked(const v1::BulkBatch& batch) {
  const auto count =
      static_cast<size_t>(batch.metrics_size() + batch.logs_size() + batch.gaps_size());
  heard_.largest_batch = std::max(heard_.largest_batch, count);
  for (const v1::MetricRecord& record : batch.metrics()) {
    if (!heard_.metrics[worker::KeyOf(record)].emplace(record.seq(), record).second)
      ++heard_.repeated_records;
  }
  for (const v1::LogRecord& record : batch.logs()) {
    auto& stream = record.is_stderr() ? heard_.errors : heard_.logs;
    if (!stream[worker::KeyOf(record)].emplace(record.offset(), record.text()).second)
      ++heard_.repeated_records;
  }
  for (const v1::GapRecord& gap : batch.gaps()) heard_.gaps.push_back(gap);
}

}  // namespace muster::testing
