#include "benchmarks/controller/sim_agent.h"

#include <sys/random.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/version.h"
#include "common/rpc/token.h"

namespace muster::benchmarks {
namespace {

std::string RandomIncarnation() {
  std::string bytes(16, '\0');
  const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
  MUSTER_CHECK(got == static_cast<ssize_t>(bytes.size()), "no random numbers");
  return bytes;
}

}  // namespace

SimAgent::SimAgent(AgentOptions options, AgentCounts& counts)
    : options_(std::move(options)), counts_(counts), incarnation_(RandomIncarnation()) {}

std::shared_ptr<SimAgent> SimAgent::Connect(v1::WorkerService::Stub& stub, AgentOptions options,
                                            AgentCounts& counts) {
  std::shared_ptr<SimAgent> agent(new SimAgent(std::move(options), counts));
  agent->self_ = agent;
  AddToken(agent->context_, agent->options_.token);
  stub.async()->Control(&agent->context_, agent.get());
  agent->AddHold();  // writes begin outside of reactions
  agent->StartRead(&agent->incoming_);
  agent->StartCall();
  agent->SayHello();
  return agent;
}

void SimAgent::SayHello() {
  v1::WorkerMessage message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_protocol_version(kProtocolVersion);
  hello->set_worker_name(options_.name);
  hello->set_incarnation(incarnation_);
  hello->set_version(std::string(Version()));
  hello->set_pool(options_.pool);
  for (uint32_t i = 0; i < options_.slots; ++i) {
    v1::Slot* slot = hello->add_slots();
    slot->set_index(i);
    slot->set_kind(v1::CPU);
    slot->set_device("cpu");
    slot->set_memory_bytes(uint64_t{4} << 30);
  }
  hello->set_cpus(options_.slots);
  hello->set_allows_commands(true);
  hello->set_memory_bytes(uint64_t{options_.slots} << 32);
  hello->set_advertise_address("127.0.0.1");
  Send(std::move(message));
}

void SimAgent::Send(v1::WorkerMessage message) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (hung_ || done_) return;
  queue_.Push(std::move(message));
  WriteNext();
}

void SimAgent::WriteNext() {
  if (writing_ || queue_.empty()) return;
  writing_ = true;
  outgoing_ = queue_.Take();
  StartWrite(&outgoing_);
}

void SimAgent::OnWriteDone(bool ok) {
  std::lock_guard<std::mutex> lock(mutex_);
  writing_ = false;
  if (!ok) queue_ = {};
  WriteNext();
}

void SimAgent::Heartbeat() {
  v1::WorkerMessage message;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    message.mutable_heartbeat()->set_seq(++heartbeat_seq_);
    heartbeat_sent_[heartbeat_seq_] = SteadySeconds();
    for (v1::RankStatus& status : running_) {
      status.set_step(status.step() + 1);
      *message.mutable_heartbeat()->add_ranks() = status;
    }
  }
  ++counts_.heartbeats_sent;
  Send(std::move(message));
}

void SimAgent::Report(const v1::Fence& fence, uint32_t rank, v1::RankEvent::Kind kind) {
  v1::WorkerMessage message;
  v1::RankEvent* event = message.mutable_rank_event();
  *event->mutable_fence() = fence;
  event->set_rank(rank);
  event->set_kind(kind);
  event->set_pid(1000 + rank);
  event->set_succeeded(kind == v1::RankEvent::EXITED);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    message.set_event_seq(++event_seq_);
    ends_rank_[event_seq_] = kind == v1::RankEvent::EXITED;
  }
  ++counts_.events_sent;
  Send(std::move(message));
}

void SimAgent::Take(const v1::StartRanks& start) {
  ++counts_.started_gangs;
  if (options_.on_start) options_.on_start(start);
  v1::WorkerMessage ack;
  ack.mutable_assignment_ack()->set_outbox_seq(start.outbox_seq());
  Send(std::move(ack));
  for (const v1::StartRanks::Rank& rank : start.ranks()) {
    Report(start.fence(), rank.rank(), v1::RankEvent::STARTED);
    options_.meet > 0 ? Meet(start.fence(), rank.rank()) : Run(start.fence(), rank.rank());
  }
}

void SimAgent::Run(const v1::Fence& fence, uint32_t rank) {
  Report(fence, rank, v1::RankEvent::RUNNING);
  if (options_.ranks_end) {
    Report(fence, rank, v1::RankEvent::EXITED);
    return;
  }
  v1::RankStatus status;
  *status.mutable_fence() = fence;
  status.set_rank(rank);
  status.set_pid(1000 + rank);
  status.set_phase("train");
  status.mutable_latest()->insert(options_.latest.begin(), options_.latest.end());
  std::lock_guard<std::mutex> lock(mutex_);
  running_.push_back(std::move(status));
}

void SimAgent::Meet(const v1::Fence& fence, uint32_t rank) {
  Ask(fence, rank, v1::StoreRequest::SET, absl::StrCat("address/", rank), options_.name, {});
  Ask(fence, rank, v1::StoreRequest::GET, "go", "", [this, fence, rank](const auto& reply) {
    if (!reply.error().empty()) {
      std::lock_guard<std::mutex> lock(counts_.mutex);
      counts_.last_error = reply.error();
      return;
    }
    ++counts_.ranks_met;
    Run(fence, rank);
  });
  Ask(fence, rank, v1::StoreRequest::ADD, "arrived", "1", [this, fence, rank](const auto& reply) {
    const bool last = reply.value() == absl::StrCat(options_.meet);
    if (last) Ask(fence, rank, v1::StoreRequest::SET, "go", "now", {});
  });
}

void SimAgent::Ask(const v1::Fence& fence, uint32_t rank, v1::StoreRequest::Op op,
                   const std::string& key, const std::string& value,
                   std::function<void(const v1::StoreReply&)> then) {
  v1::WorkerMessage message;
  v1::StoreRequest* request = message.mutable_store_request();
  *request->mutable_fence() = fence;
  request->set_rank(rank);
  request->set_op(op);
  request->add_keys(key);
  request->set_value(value);
  request->set_timeout_ms(120'000);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    request->set_request_id(++last_request_);
    if (then) asked_[last_request_] = std::move(then);
  }
  Send(std::move(message));
}

void SimAgent::Answer(const v1::StoreReply& reply) {
  std::function<void(const v1::StoreReply&)> then;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto asked = asked_.find(reply.request_id());
    if (asked == asked_.end()) return;
    then = std::move(asked->second);
    asked_.erase(asked);
  }
  then(reply);
}

// It sees every checkpoint root that it is asked about.
void SimAgent::See(const v1::WatchRoots& roots) {
  v1::WorkerMessage message;
  for (const v1::WatchRoots::Root& root : roots.roots()) {
    v1::RootReport::Root* row = message.mutable_heartbeat()->mutable_roots()->add_roots();
    row->set_path(root.path());
    row->set_identity(root.identity().empty() ? root.claim() : root.identity());
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    message.mutable_heartbeat()->set_seq(++heartbeat_seq_);
    heartbeat_sent_[heartbeat_seq_] = SteadySeconds();
    for (const v1::RankStatus& status : running_) {
      *message.mutable_heartbeat()->add_ranks() = status;
    }
  }
  ++counts_.heartbeats_sent;
  Send(std::move(message));
}

void SimAgent::OnReadDone(bool ok) {
  if (!ok) {
    RemoveHold();
    return;
  }
  ForEachPacked(incoming_, [this](const v1::ControllerMessage& message) {
    Handle(message);
    return true;
  });
  StartRead(&incoming_);
}

void SimAgent::Handle(const v1::ControllerMessage& message) {
  switch (message.body_case()) {
    case v1::ControllerMessage::kWelcome:
      ++counts_.welcomed;
      break;
    case v1::ControllerMessage::kHeartbeatAck: {
      ++counts_.heartbeats_answered;
      double took = -1;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto sent = heartbeat_sent_.find(message.heartbeat_ack().seq());
        if (sent != heartbeat_sent_.end()) {
          took = SteadySeconds() - sent->second;
          heartbeat_sent_.erase(sent);
        }
      }
      if (took >= 0) {
        std::lock_guard<std::mutex> lock(counts_.mutex);
        counts_.heartbeat_latencies.Add(took);
      }
      break;
    }
    case v1::ControllerMessage::kEventAck: {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto end = ends_rank_.upper_bound(message.event_ack().event_seq());
      for (auto event = ends_rank_.begin(); event != end; event = ends_rank_.erase(event)) {
        ++counts_.events_durable;
        if (event->second) ++counts_.ranks_ended;
      }
      break;
    }
    case v1::ControllerMessage::kStartRanks:
      Take(message.start_ranks());
      break;
    case v1::ControllerMessage::kStoreReply:
      Answer(message.store_reply());
      break;
    case v1::ControllerMessage::kWatchRoots:
      See(message.watch_roots());
      break;
    default:
      break;
  }
}

void SimAgent::Hang() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    hung_ = true;
  }
  context_.TryCancel();
}

void SimAgent::OnDone(const grpc::Status& status) {
  {
    std::lock_guard<std::mutex> lock(counts_.mutex);
    if (!hung_) counts_.last_error = status.error_message();
  }
  if (!hung_) ++counts_.ended;
  std::shared_ptr<SimAgent> self = std::move(self_);
  std::lock_guard<std::mutex> lock(mutex_);
  done_ = true;
  over_.notify_all();
}

void SimAgent::Join() {
  std::unique_lock<std::mutex> lock(mutex_);
  over_.wait(lock, [this] { return done_; });
}

}  // namespace muster::benchmarks
