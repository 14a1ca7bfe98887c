#include "tests/fuzz/agent_world.h"

#include <google/protobuf/descriptor.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/ckpt/verifier.h"
#include "common/metrics/metric_families.h"
#include "common/metrics/metric_names.h"
#include "common/rpc/packed_queue.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/fuzz/message_builder.h"
#include "worker/agent/checkpoint/checkpoint_executor.h"
#include "worker/agent/command/command_rules.h"
#include "worker/agent/connection/session.h"
#include "worker/agent/container/container_rules.h"
#include "worker/agent/gang/assignment_log.h"
#include "worker/agent/gang/store_relay.h"
#include "worker/agent/gang/supervisor_rules.h"

namespace muster::testing {
namespace {

namespace mw = ::muster::worker;

constexpr uint32_t kSlots = 4;
constexpr char kSpec[] =
    R"({"train":{"threads_per_rank":1},"restart":{"controller_lost_timeout":"1h"}})";
constexpr char kCommandSpec[] =
    R"({"command":{"argv":["sh","-c","true"],"env":{"A":"b"},"workdir":"/w","image":""},)"
    R"("restart":{"controller_lost_timeout":"1h","max_restarts":3},"per_rank":{"memory":"1GiB"}})";
// What may go when its folder is named, and what must stay.
constexpr char kPublished[] = "/ckpt/job-1/step-5.a1.g1";
constexpr char kForeign[] = "/etc/passwd";

[[noreturn]] void Broken(const std::string& what) {
  ::fprintf(stderr, "BROKEN: %s\n", what.c_str());
  ::abort();
}

class FakeTimers final : public mw::Timers {
 public:
  TimerId After(absl::Duration delay, std::function<void()> task) override {
    tasks_[++last_id_] = {clock_.SinceBoot() + delay, std::move(task)};
    return last_id_;
  }
  void Cancel(TimerId id) override { tasks_.erase(id); }
  Clock& clock() const override { return clock_; }
  // Runs what is due by then, in the order of its times.
  void Advance(absl::Duration by) {
    constexpr int kMostTasks = 200;  // a session of short heartbeats has more
    clock_.Advance(by);
    for (int i = 0; i < kMostTasks; ++i) {
      auto due = tasks_.end();
      for (auto it = tasks_.begin(); it != tasks_.end(); ++it) {
        const bool is_due = it->second.first <= clock_.SinceBoot();
        if (is_due && (due == tasks_.end() || it->second.first < due->second.first)) due = it;
      }
      if (due == tasks_.end()) return;
      const std::function<void()> task = std::move(due->second.second);
      tasks_.erase(due);
      task();
    }
  }

 private:
  mutable SimulatedClock clock_;
  std::map<TimerId, std::pair<absl::Duration, std::function<void()>>> tasks_;
  TimerId last_id_ = 0;
};

// The agent's end of a stream: what it says must be readable.
class Stream final : public mw::ControlConnection {
 public:
  explicit Stream(mw::ControlHandlers handlers) : handlers_(std::move(handlers)) {}
  void Send(v1::WorkerMessage message) override {
    if (!v1::WorkerMessage().ParseFromString(message.SerializeAsString()))
      Broken("nobody can read " + message.ShortDebugString());
  }
  void Close() override { open_ = false; }
  bool open() const { return open_; }
  const mw::ControlHandlers& handlers() const { return handlers_; }

 private:
  const mw::ControlHandlers handlers_;
  bool open_ = true;
};

}  // namespace

// What agent.cc and supervisor.cc do with a message, where that starts no process.
class AgentWorld::Agent final : public mw::SessionHandler {
 public:
  Agent()
      : relay_({.send = [this](v1::WorkerMessage message) { Say(std::move(message)); },
                .reply = [](const mw::RankKey&, const mw::StoreReplyLine&) {}}),
        session_(timers_,
                 [this](mw::ControlHandlers handlers) { return Connect(std::move(handlers)); },
                 families_, *this, {.hello = v1::Hello(), .near = true, .seed = 1}) {
    fs_.files()[absl::StrCat(kPublished, "/MANIFEST.json")] = "{}";
    fs_.files()[absl::StrCat(kPublished, "/model.safetensors")] = "x";
    fs_.files()[kForeign] = "root";
    for (uint32_t index = 0; index < kSlots; ++index) slots_.emplace_back().set_index(index);
    session_.Start();
  }
  ~Agent() override { session_.Stop(); }
  const std::set<int>& heard() const { return heard_; }

  void Step(FuzzInput& input) {
    switch (input.Below(8)) {
      case 0:
        timers_.Advance(absl::Milliseconds(input.Byte() * 100));
        return relay_.Sweep(timers_.clock().SinceBoot());
      case 1:
        return AskStore(input);
      case 2: {
        v1::WorkerMessage event;
        FillMessage(input, *event.mutable_rank_event());
        return Travels(event) ? session_.SendEvent(std::move(event)) : void();
      }
      case 3:
        if (!stream_->open()) return;
        return stream_->handlers().on_end(
            absl::Status(static_cast<absl::StatusCode>(input.Below(17)), "as the input says"));
      default:
        return Hear(input);
    }
  }
  void Check() {
    if (fs_.files().count(kForeign) == 0) Broken("a file that is no checkpoint was deleted");
  }

 private:
  template <typename Message>
  static bool Travels(const Message& message) {
    return Message().ParseFromString(message.SerializeAsString());
  }

  std::shared_ptr<mw::ControlConnection> Connect(mw::ControlHandlers handlers) {
    stream_ = std::make_shared<Stream>(std::move(handlers));
    return stream_;
  }
  void Say(v1::WorkerMessage message) {
    if (!session_up_) Broken("the relay speaks while nobody listens");
    session_.SendMessage(std::move(message));
  }

  void AskStore(FuzzInput& input) {
    v1::Fence fence;
    FillMessage(input, fence);
    mw::StoreLine line{.id = input.Byte(), .keys = {"k"}, .value = "v"};
    line.op = static_cast<mw::StoreLine::Op>(input.Below(7));
    line.timeout_ms = static_cast<int64_t>(input.Word());
    relay_.Request(fence, input.Below(4), input.Chance(128), std::move(line),
                   timers_.clock().SinceBoot());
  }

  // Mostly one that makes sense.
  v1::ControllerMessage SomeMessage(FuzzInput& input) {
    v1::ControllerMessage message;
    switch (input.Below(8)) {
      case 0:
        message.mutable_welcome()->set_term(input.Below(4));
        message.mutable_welcome()->set_lease_ms(1000);
        message.mutable_welcome()->set_heartbeat_interval_ms(static_cast<int64_t>(input.Word()));
        break;
      case 1: {
        v1::StartRanks& start = *message.mutable_start_ranks();
        FillMessage(input, start);
        start.set_spec_json(input.Chance(128) ? kSpec : kCommandSpec);
        if (input.Chance(128)) start.set_outbox_seq(++next_outbox_seq_);
        break;
      }
      case 2:
        message.mutable_delete_checkpoint()->set_outbox_seq(++next_outbox_seq_);
        message.mutable_delete_checkpoint()->set_path(SomePath(input));
        break;
      case 3:
        message.mutable_heartbeat_ack()->set_seq(input.Below(16));
        break;
      case 4:
        FillMessage(input, *message.mutable_checkpoint_ack());
        break;
      default: {
        const auto* body = v1::ControllerMessage::descriptor()->FindOneofByName("body");
        const auto kinds = static_cast<uint32_t>(body->field_count());
        const auto* field = body->field(static_cast<int>(input.Below(kinds)));
        FillMessage(input, *message.GetReflection()->MutableMessage(&message, field));
        if (input.Chance(16)) FillMessage(input, *message.add_more());
      }
    }
    return message;
  }
  static std::string SomePath(FuzzInput& input) {
    static const char* const kPaths[] = {kPublished,
                                         "/ckpt/job-1",
                                         "/",
                                         "/etc",
                                         kForeign,
                                         "/ckpt/job-1/step-5.a1.g1/",
                                         "step-5.a1.g1",
                                         "/etc/../ckpt/job-1/step-5.a1.g1",
                                         "/step-5.a1.g1",
                                         ""};
    return kPaths[input.Below(10)];
  }
  void Hear(FuzzInput& input) {
    const v1::ControllerMessage message = SomeMessage(input);
    if (!Travels(message) || !CheckPacked(message).ok()) return;
    ForEachPacked(message, [&](const v1::ControllerMessage& one) {
      if (!stream_->open()) return false;
      const uint64_t term = session_.term();
      heard_.insert(one.body_case());
      stream_->handlers().on_message(one);
      if (session_.term() < term) Broken("the agent follows a controller of a lower term");
      return true;
    });
  }

  void FillHello(v1::Hello&) override {}
  std::vector<v1::RankStatus> RankStatuses() override { return {}; }
  void OnSessionUp(const v1::Welcome& welcome) override {
    session_up_ = true;
    relay_.SessionUp(welcome.term());
  }
  void OnSessionDown() override {
    session_up_ = false;
    relay_.SessionDown();
  }
  void OnLeaseRenewed() override {
    if (!session_.up()) Broken("a lease is renewed while nobody speaks");
  }
  void OnRefused(absl::Status) override {}

  void OnControllerMessage(const v1::ControllerMessage& message) override {
    switch (message.body_case()) {
      case v1::ControllerMessage::kStoreReply:
        return relay_.OnReply(message.store_reply());
      case v1::ControllerMessage::kStartRanks: {
        const v1::StartRanks& start = message.start_ranks();
        if (!Take(start.outbox_seq())) return;
        return Acknowledge(start.outbox_seq(), std::string(Start(start).message()));
      }
      case v1::ControllerMessage::kStopRanks:
        if (!Take(message.stop_ranks().outbox_seq())) return;
        Stop(message.stop_ranks());
        return Acknowledge(message.stop_ranks().outbox_seq(), "");
      case v1::ControllerMessage::kVerifyCheckpoint: {
        const v1::VerifyCheckpoint& verify = message.verify_checkpoint();
        if (!Take(verify.outbox_seq())) return;
        const absl::Status verdict = VerifyCheckpoint(fs_, verify.path(), verify.manifest_sha256());
        return Acknowledge(verify.outbox_seq(), std::string(verdict.message()));
      }
      case v1::ControllerMessage::kDeleteCheckpoint: {
        const v1::DeleteCheckpoint& remove = message.delete_checkpoint();
        if (!Take(remove.outbox_seq())) return;
        const absl::Status removed = mw::DeleteCheckpointFolder(fs_, remove.path());
        return Acknowledge(remove.outbox_seq(), std::string(removed.message()));
      }
      default:
        return;
    }
  }

  bool Take(uint64_t outbox_seq) {
    if (!assignments_.Take(outbox_seq)) {
      const auto answer = assignments_.AnswerOf(outbox_seq);
      if (answer.has_value()) Acknowledge(outbox_seq, *answer);
      return false;
    }
    if (!taken_.insert(outbox_seq).second) Broken("an assignment is done twice");
    return true;
  }
  void Acknowledge(uint64_t outbox_seq, const std::string& refusal) {
    assignments_.Answer(outbox_seq, refusal);
    v1::WorkerMessage message;
    message.mutable_assignment_ack()->set_outbox_seq(outbox_seq);
    message.mutable_assignment_ack()->set_refusal(refusal);
    session_.SendMessage(std::move(message));
  }

  absl::Status Start(const v1::StartRanks& start) {
    mw::StartContext context{.allow_commands = true,
                             .runtimes = {.podman = "/usr/bin/podman", .apptainer = "/a"},
                             .session_term = session_.term()};
    for (uint32_t index = 0; index < kSlots; ++index) context.slots.insert(index);
    const auto settings = mw::CheckStart(start, context, fences_, specs_);
    if (!settings.ok()) return settings.status();
    const absl::Status devices = mw::CheckDevices(start, *settings, slots_);
    if (!devices.ok()) return devices;
    const auto over = stopped_.find(start.fence().job_id());
    if (over != stopped_.end() && start.fence().attempt() <= over->second)
      Broken("an attempt starts that was stopped");
    fences_.RaiseTo(start.fence().job_id(), start.fence().attempt());
    if (settings->command.has_value()) {
      for (const auto& rank : start.ranks()) Prepare(start, rank, *settings->command);
    }
    return absl::OkStatus();
  }
  void Prepare(const v1::StartRanks& start, const v1::StartRanks::Rank& rank,
               const mw::CommandSettings& command) {
    const mw::GangFacts facts{.master_address = "127.0.0.1", .master_port = 1};
    const auto same = mw::DecodeGangFacts(mw::EncodeGangFacts(facts));
    if (!same.ok()) Broken("what the gang agreed on cannot be read");
    const std::vector<std::string> environment = mw::CommandEnvironment(
        {"PATH=/bin"}, start, rank, command, facts, {.worker = "w", .folder = "/f"});
    std::set<std::string> names;
    for (const std::string& variable : environment) {
      const size_t equals = variable.find('=');
      if (equals == std::string::npos || !names.insert(variable.substr(0, equals)).second)
        Broken("a variable without a value, or twice: " + variable);
    }
    for (const auto runtime : {mw::ContainerRuntime::kPodman, mw::ContainerRuntime::kApptainer}) {
      mw::MakeContainerCommand(runtime, {.name = mw::ContainerName({1, 1, 1, rank.rank()}, "w"),
                                         .image = "i",
                                         .argv = command.argv,
                                         .environment = environment,
                                         .mounts = {{start.checkpoint_root(), "/to"}}})
          .IgnoreError();
    }
  }
  void Stop(const v1::StopRanks& stop) {
    const v1::Fence& fence = stop.fence();
    fences_.RaiseTo(fence.job_id(), fence.attempt() + 1);
    // With as many jobs as an input has, none is forgotten. No job has so many attempts.
    if (fence.attempt() != UINT32_MAX) {
      uint32_t& over = stopped_[fence.job_id()];
      over = std::max(over, fence.attempt());
    }
    EndRank({stop.mode(), absl::Milliseconds(std::max<int64_t>(0, stop.grace_ms())), ""});
  }
  // Whatever the request is, the rank is killed in the end.
  static void EndRank(const mw::StopRequest& request) {
    constexpr int kMostLooks = 8;
    absl::Duration elapsed;
    mw::StopAction taken = mw::StopAction::kWait;
    for (int look = 0; look < kMostLooks; ++look) {
      const mw::StopStep step = mw::NextStopStep(request, elapsed, taken);
      if (step.action == mw::StopAction::kKill) return;
      if (step.next_in <= absl::ZeroDuration()) Broken("a stop that looks again at once, for ever");
      if (step.action != mw::StopAction::kWait) taken = step.action;
      elapsed += step.next_in;
    }
    Broken("a rank that is told to stop is never killed");
  }

  MemoryFileSystem fs_;
  FakeTimers timers_;
  MetricFamilies families_{metric::kWorkerDroppedTotal};
  std::shared_ptr<Stream> stream_;
  bool session_up_ = false;
  std::vector<v1::Slot> slots_;
  mw::AssignmentLog assignments_;
  mw::AttemptFences fences_;
  mw::SpecReader specs_;
  mw::StoreRelay relay_;
  mw::Session session_;
  std::set<int> heard_;  // kinds of messages, by their field numbers
  std::set<uint64_t> taken_;
  std::map<uint64_t, uint32_t> stopped_;  // the newest attempt of each job that was
  uint64_t next_outbox_seq_ = 100;
};

AgentWorld::AgentWorld() : agent_(std::make_unique<Agent>()) {}
AgentWorld::~AgentWorld() = default;
void AgentWorld::Step(FuzzInput& input) { agent_->Step(input); }
void AgentWorld::Finish() { agent_->Check(); }
const std::set<int>& AgentWorld::heard() const { return agent_->heard(); }

}  // namespace muster::testing
