#include "tests/fuzz/controller_world.h"

#include <google/protobuf/stubs/logging.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/version.h"
#include "common/metrics/metric_names.h"
#include "tests/fuzz/message_builder.h"
#include "tests/support/model_invariants.h"

namespace muster::testing {
namespace {

namespace mc = ::muster::controller;

constexpr char kToken[] = "token";
constexpr int kAgents = 3;

[[noreturn]] void Broken(const std::string& what) {
  ::fprintf(stderr, "BROKEN: %s\n", what.c_str());
  ::abort();
}

// On memory where there is some: an input opens a database of its own.
std::string MakeFolder() {
  for (const char* root : {"/dev/shm", "/tmp"}) {
    std::string pattern = std::string(root) + "/muster-fuzz-XXXXXX";
    if (::mkdtemp(pattern.data()) != nullptr) return pattern;
  }
  Broken("no folder for the database");
}

// What outlives an input: metrics.db has no part in the model, and opening one takes long.
struct Shared {
  Shared() : folder(MakeFolder()) {
    google::protobuf::SetLogHandler(nullptr);  // bad text is what this is about
    mc::MetricsIngestOptions options;
    options.path = folder + "/metrics.db";
    options.known = [](const mc::RankKey& key, const std::string&) {
      return key.job_id < 4 && key.attempt < 4;
    };
    options.max_bytes = 64 << 20;
    options.on_fatal = [](const absl::Status& status) {
      Broken(absl::StrCat("metrics.db: ", status.ToString()));
    };
    auto opened = mc::MetricsIngest::Open(std::move(options), clock);
    if (!opened.ok()) Broken(opened.status().ToString());
    ingest = *std::move(opened);
    ingest->Start();
  }
  ~Shared() {
    ingest->Stop();
    ingest.reset();
    std::filesystem::remove_all(folder);
  }
  const std::string folder;
  RealClock clock;
  MetricFamilies families{metric::kControllerDroppedTotal};
  mc::CallGate gate{kToken, families, clock};
  std::unique_ptr<mc::MetricsIngest> ingest;
};

Shared& Common() {
  static Shared shared;
  return shared;
}

std::string Authorization() { return absl::StrCat("Bearer ", kToken); }

// A spec that is good, so that most submits get past the checks.
void FillGoodSpec(FuzzInput& input, v1::JobSpec& spec) {
  spec.set_name(absl::StrCat("job-", input.Below(3)));
  spec.mutable_ranks()->set_min(1 + input.Below(3));
  spec.mutable_ranks()->set_max(spec.ranks().min() + input.Below(2));
  spec.mutable_placement()->set_wait_for_capacity(!input.Chance(32));
  spec.mutable_train()->mutable_model()->mutable_mlp();
  spec.mutable_train()->mutable_data()->mutable_synthetic();
  spec.mutable_train()->set_batch_size(32);
  spec.mutable_train()->set_steps(100);
}

// Requests get their frame right more often than chance would.
template <typename Request>
void Prepare(FuzzInput& input, Request& request) {
  if constexpr (requires { request.mutable_job()->set_id(1); }) {
    request.mutable_job()->set_id(1 + input.Below(4));
  }
  if constexpr (requires { request.set_verb(v1::ControlJobRequest::HOLD); }) {
    request.set_verb(static_cast<v1::ControlJobRequest::Verb>(1 + input.Below(5)));
    request.set_user("ann");
  }
  if constexpr (requires { request.set_verb(v1::ControlCheckpointRequest::PIN); }) {
    request.set_verb(static_cast<v1::ControlCheckpointRequest::Verb>(1 + input.Below(3)));
    request.set_force(input.Chance(64));
  }
  if constexpr (requires { request.set_checkpoint_id(1); }) {
    request.set_checkpoint_id(1 + input.Below(4));
  }
}
void Prepare(FuzzInput& input, v1::SubmitRequest& request) {
  FillGoodSpec(input, *request.mutable_spec());
  if (input.Chance(64)) FillMessage(input, *request.mutable_spec());
  request.set_protocol_version(kProtocolVersion);
  request.set_dry_run(input.Chance(32));
  request.set_idempotency_key(input.Chance(128) ? "" : absl::StrCat("key-", input.Below(3)));
  request.set_owner(input.Chance(128) ? "ann" : "bob");
}

}  // namespace

// ---- calls of people ----

struct ControllerWorld::Method {
  std::string name;
  std::function<void(ControllerWorld&, FuzzInput&)> call;
};

#define UNARY(name) UNARY_OF(JobService, *world.jobs_, name)
#define UNARY_OF(Service, service, name)                                          \
  Method {                                                                        \
#name, [](ControllerWorld & world, FuzzInput & input) {                         \
      world.CallUnary<mc::Service>(input, #Service "." #name, service, &mc::Service::name); \
    } \
  }
#define STREAM(name)                                                                        \
  Method {                                                                                  \
#name, [](ControllerWorld & world,                                                      \
              FuzzInput & input) { world.CallStream(input, #name, &mc::JobService::name); } \
  }

const std::vector<ControllerWorld::Method>& ControllerWorld::AllMethods() {
  static const auto* methods = new std::vector<Method>{
      UNARY(GetVersion),
      UNARY(Submit),
      UNARY(ListJobs),
      UNARY(GetJob),
      UNARY(CancelJob),
      STREAM(WatchJob),
      STREAM(StreamLogs),
      UNARY(QueryMetrics),
      UNARY(ListCheckpoints),
      UNARY(VerifyCheckpoint),
      UNARY(ListWorkers),
      UNARY(ControlJob),
      UNARY(UpdateJob),
      STREAM(StreamEvents),
      UNARY(CordonWorker),
      UNARY(ForgetWorker),
      UNARY(ListProjects),
      UNARY(SetProject),
      UNARY(GetGoodput),
      UNARY(ExplainJob),
      UNARY(GetCheckpoint),
      UNARY(ControlCheckpoint),
      UNARY_OF(PageService, *world.page_, FindJobs),
      UNARY_OF(PageService, *world.page_, ReadLogs),
      Method{"Backup",
             [](ControllerWorld& world, FuzzInput& input) {
               world.CallAdmin(input, "Backup", &mc::AdminService::Backup);
             }},
      Method{"GetAdminStatus",
             [](ControllerWorld& world, FuzzInput& input) {
               world.CallAdmin(input, "GetAdminStatus", &mc::AdminService::GetAdminStatus);
             }},
      Method{"SubmitJobs",
             [](ControllerWorld& world, FuzzInput& input) { world.SubmitOnStream(input); }},
      Method{"Exec", [](ControllerWorld& world, FuzzInput& input) { world.SayToProgram(input); }},
  };
  return *methods;
}

template <typename Service, typename Request, typename Response>
void ControllerWorld::CallUnary(FuzzInput& input, const std::string& name, Service& service,
                                grpc::ServerUnaryReactor* (Service::*handler)(
                                    grpc::CallbackServerContext*, const Request*, Response*)) {
  auto call = std::make_shared<FakeUnary<Request, Response>>(board_, Authorization());
  Prepare(input, call->request);
  if (call->request.ByteSizeLong() == 0 || input.Chance(48)) FillMessage(input, call->request);
  if (!Travels(call->request)) call->request.Clear();  // gRPC would refuse it
  called_.insert(name);
  call->Bind((service.*handler)(call->context(), &call->request, &call->response));
  engine_->RunUntilIdle();
  // A verdict on a checkpoint may take as long as an agent likes.
  if (name == "JobService.VerifyCheckpoint") return;
  if (!board_.DeliverUntil([&] { return call->finished(); })) Broken(name + " is not answered");
}

template <typename Request, typename Response>
void ControllerWorld::CallAdmin(FuzzInput& input, const std::string& name,
                                grpc::ServerUnaryReactor* (mc::AdminService::*handler)(
                                    grpc::CallbackServerContext*, const Request*, Response*)) {
  auto call = std::make_shared<FakeUnary<Request, Response>>(board_, Authorization());
  FillMessage(input, call->request);
  if (!Travels(call->request)) call->request.Clear();  // gRPC would refuse it
  called_.insert("AdminService." + name);
  call->Bind((admin_.get()->*handler)(call->context(), &call->request, &call->response));
  if (!board_.DeliverUntil([&] { return call->finished(); })) Broken(name + " is not answered");
}

template <typename Request, typename Response>
void ControllerWorld::CallStream(FuzzInput& input, const std::string& name,
                                 grpc::ServerWriteReactor<Response>* (mc::JobService::*handler)(
                                     grpc::CallbackServerContext*, const Request*)) {
  auto call = std::make_shared<FakeWriter<Request, Response>>(board_, Authorization());
  Prepare(input, call->request);
  if (input.Chance(96)) FillMessage(input, call->request);
  if (!Travels(call->request)) call->request.Clear();  // gRPC would refuse it
  called_.insert("JobService." + name);
  call->Bind((jobs_.get()->*handler)(call->context(), &call->request));
  cancels_.push_back([call] { call->Cancel(); });
}

void ControllerWorld::SubmitOnStream(FuzzInput& input) {
  if (submits_ == nullptr || submits_->finished() || input.Chance(32)) {
    submits_ = std::make_shared<Submits>(board_, Authorization());
    submits_->Bind(jobs_->SubmitJobs(submits_->context()));
    cancels_.push_back([call = submits_] { call->Cancel(); });
  }
  v1::SubmitJobsRequest message;
  for (uint32_t left = 1 + input.Below(3); left > 0; --left) {
    Prepare(input, *message.add_submits());
  }
  if (input.Chance(24)) FillMessage(input, message);
  bool answered = false;
  submits_->on_message = [&](const v1::SubmitJobsResponse& response) {
    answered = true;
    if (response.outcomes_size() != message.submits_size()) Broken("an outcome is missing");
  };
  if (!submits_->Say(message)) return;
  called_.insert("JobService.SubmitJobs");
  engine_->RunUntilIdle();
  if (!board_.DeliverUntil([&] { return answered || submits_->finished(); })) {
    Broken("SubmitJobs is not answered");
  }
  submits_->on_message = {};
}

void ControllerWorld::SayToProgram(FuzzInput& input) {
  v1::ExecRequest message;
  if (person_exec_ == nullptr || person_exec_->finished() || input.Chance(48)) {
    person_exec_ = std::make_shared<PersonExec>(board_, Authorization());
    person_exec_->Bind(execs_->Exec(person_exec_->context()));
    cancels_.push_back([call = person_exec_] { call->Cancel(); });
    v1::ExecStart& start = *message.mutable_start();
    Prepare(input, start);
    start.set_rank(input.Below(2));
    start.add_argv("true");
    if (input.Chance(24)) FillMessage(input, start);
  } else {
    FillMessage(input, *message.mutable_input());
    if (input.Chance(16)) FillMessage(input, message);
  }
  if (!Travels(message)) return;
  if (person_exec_->Say(message)) called_.insert("ExecService.Exec");
}

void ControllerWorld::SayOfProgram(FuzzInput& input) {
  v1::ExecOutput message;
  if (agent_exec_ == nullptr || agent_exec_->finished() || input.Chance(48)) {
    agent_exec_ = std::make_shared<AgentExec>(board_, Authorization());
    agent_exec_->Bind(workers_->Exec(agent_exec_->context()));
    message.set_session(input.Chance(224) ? exec_session_ : "another");
  } else {
    FillMessage(input, message);
  }
  if (!Travels(message)) return;
  if (agent_exec_->Say(message)) called_.insert("WorkerService.Exec");
}

void ControllerWorld::CallPeople(FuzzInput& input) {
  // Many of them submit: the other verbs need something to work on.
  if (input.Chance(100)) {
    CallUnary(input, "JobService.Submit", *jobs_, &mc::JobService::Submit);
  } else {
    AllMethods()[input.Below(static_cast<uint32_t>(AllMethods().size()))].call(*this, input);
  }
}

// ---- agents ----

void ControllerWorld::Connect(FuzzInput& input, Agent& agent) {
  if (agent.control != nullptr) agent.control->Cancel();
  // Sometimes as another life of the same name, or with an old life's mark.
  if (agent.incarnation.empty() || input.Chance(24)) {
    agent = Agent{.name = absl::StrCat("worker-", input.Below(kAgents)),
                  .incarnation = std::string(16, static_cast<char>('a' + input.Below(4)))};
  }
  agent.said = agent.acked;
  agent.waiting = {};
  agent.control = std::make_shared<Control>(board_, Authorization());
  agent.control->on_message = [this, &agent](const v1::ControllerMessage& message) {
    Hear(agent, message);
  };
  agent.control->Bind(workers_->Control(agent.control->context()));
  v1::WorkerMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_protocol_version(kProtocolVersion);
  hello.set_worker_name(agent.name);
  hello.set_incarnation(agent.incarnation);
  hello.set_identity(std::string(16, static_cast<char>('A' + input.Below(2))));
  for (char life = 'a'; life < 'e'; ++life) {
    if (input.Chance(128)) hello.add_predecessors(std::string(16, life));
  }
  hello.set_pool("default");
  hello.set_cpus(4);
  hello.set_allows_commands(true);
  hello.set_memory_bytes(1 << 30);
  hello.set_advertise_address("127.0.0.1");
  const uint32_t slots = 1 + input.Below(4);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    hello.add_slots()->set_index(slot);
    hello.mutable_slots(static_cast<int>(slot))->set_kind(v1::CPU);
  }
  for (const v1::StartRanks& start : agent.starts) {
    if (!input.Chance(128)) continue;
    v1::RankStatus& status = *hello.add_ranks();
    *status.mutable_fence() = start.fence();
    status.set_rank(start.ranks_size() > 0 ? start.ranks(0).rank() : 0);
  }
  if (input.Chance(32)) FillMessage(input, hello);
  if (!agent.control->Say(message)) return;
  said_.insert(message.body_case());
  called_.insert("WorkerService.Control");
}

void ControllerWorld::Hear(Agent& agent, const v1::ControllerMessage& packed) {
  ForEachPacked(packed, [&](const v1::ControllerMessage& message) {
    HearOne(agent, message);
    return true;
  });
}

void ControllerWorld::HearOne(Agent& agent, const v1::ControllerMessage& message) {
  if (message.has_event_ack()) agent.acked = message.event_ack().event_seq();
  if (message.has_start_ranks()) {
    agent.starts.push_back(message.start_ranks());
    agent.assignments.push_back(message.start_ranks().outbox_seq());
  }
  if (message.has_watch_roots()) agent.roots = message.watch_roots();
  if (message.has_start_exec()) exec_session_ = message.start_exec().session();
  if (message.has_stop_ranks()) agent.assignments.push_back(message.stop_ranks().outbox_seq());
  if (message.has_verify_checkpoint()) {
    agent.assignments.push_back(message.verify_checkpoint().outbox_seq());
  }
  if (message.has_delete_checkpoint()) {
    agent.assignments.push_back(message.delete_checkpoint().outbox_seq());
  }
}

void ControllerWorld::Send(Agent& agent, v1::WorkerMessage message) {
  agent.waiting.Push(std::move(message));
  if (agent.holds_back && agent.waiting.size() <= kMostPacked) return;
  const v1::WorkerMessage packed = agent.waiting.Take();
  if (agent.control == nullptr || !agent.control->Say(packed)) return;
  ForEachPacked(packed, [this](const v1::WorkerMessage& each) {
    said_.insert(each.body_case());
    return true;
  });
}

void ControllerWorld::SayAnything(FuzzInput& input, Agent& agent) {
  v1::WorkerMessage message;
  const auto* type = v1::WorkerMessage::descriptor();
  const auto* body = type->field(static_cast<int>(input.Below(type->field_count())));
  if (body->is_repeated()) {
    FillMessage(input, message);  // `more` and all
  } else if (body->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
    FillMessage(input, *message.GetReflection()->MutableMessage(&message, body));
  }
  message.set_event_seq(input.Chance(200) ? ++agent.said : input.Below(5));
  Send(agent, std::move(message));
}

void ControllerWorld::ReportRank(FuzzInput& input, Agent& agent) {
  const v1::StartRanks& start =
      agent.starts[input.Below(static_cast<uint32_t>(agent.starts.size()))];
  v1::WorkerMessage message;
  v1::RankEvent& event = *message.mutable_rank_event();
  *event.mutable_fence() = start.fence();
  event.set_rank(start.ranks_size() == 0
                     ? 0
                     : start.ranks(static_cast<int>(input.Below(start.ranks_size()))).rank());
  event.set_kind(static_cast<v1::RankEvent::Kind>(1 + input.Below(3)));
  event.set_pid(100 + event.rank());
  event.set_succeeded(input.Chance(128));
  event.set_stopped(!event.succeeded() && input.Chance(64));
  event.set_failure_class(static_cast<v1::FailureClass>(input.Below(v1::FailureClass_ARRAYSIZE)));
  event.set_last_step(input.Below(100));
  if (input.Chance(64)) event.set_message(LongText(input));
  if (input.Chance(16)) FillMessage(input, event);
  message.set_event_seq(++agent.said);
  Send(agent, std::move(message));
}

void ControllerWorld::ReportCheckpoint(FuzzInput& input, Agent& agent) {
  const v1::StartRanks& start =
      agent.starts[input.Below(static_cast<uint32_t>(agent.starts.size()))];
  v1::WorkerMessage message;
  v1::CheckpointEvent& event = *message.mutable_checkpoint_event();
  *event.mutable_fence() = start.fence();
  // Commits are what the rest follows from.
  event.set_kind(input.Chance(128) ? v1::CheckpointEvent::COMMIT
                                   : static_cast<v1::CheckpointEvent::Kind>(1 + input.Below(5)));
  event.set_step(input.Below(4));
  event.set_path(absl::StrCat(start.checkpoint_root(), "/step-", event.step()));
  event.set_manifest_sha256(absl::StrCat("sha-", input.Below(2)));
  event.set_best(input.Chance(64));
  if (input.Chance(16)) FillMessage(input, event);
  message.set_event_seq(++agent.said);
  Send(agent, std::move(message));
}

void ControllerWorld::SayWhatAnAgentWould(FuzzInput& input, Agent& agent) {
  v1::WorkerMessage message;
  const v1::WatchRoots asked = std::exchange(agent.roots, {});
  // Mostly it sees the roots that it is asked about: otherwise nothing is placed here.
  if (asked.roots_size() > 0) {
    message.mutable_heartbeat()->set_seq(++agent.heartbeats);
    for (const v1::WatchRoots::Root& root : asked.roots()) {
      v1::RootReport::Root& row = *message.mutable_heartbeat()->mutable_roots()->add_roots();
      row.set_path(root.path());
      if (input.Chance(240)) {
        row.set_identity(root.identity().empty() ? root.claim() : root.identity());
      } else {
        FillMessage(input, row);
      }
    }
    Send(agent, std::move(message));
    message.Clear();
    Settle();
  }
  switch (input.Below(6)) {
    case 0:
      message.mutable_heartbeat()->set_seq(++agent.heartbeats);
      return Send(agent, std::move(message));
    case 1:
      for (const uint64_t seq : std::exchange(agent.assignments, {})) {
        message.mutable_assignment_ack()->set_outbox_seq(seq);
        if (input.Chance(16)) message.mutable_assignment_ack()->set_refusal(LongText(input));
        Send(agent, message);
        Settle();
      }
      return;
    case 2:
    case 3:
      if (!agent.starts.empty()) ReportRank(input, agent);
      return;
    case 4:
      if (!agent.starts.empty()) ReportCheckpoint(input, agent);
      return;
    case 5: {
      const bool verify = input.Chance(128);
      if (verify) {
        message.mutable_verify_result()->set_checkpoint_id(1 + input.Below(4));
        message.mutable_verify_result()->set_ok(input.Chance(160));
        message.mutable_verify_result()->set_missing(input.Chance(64));
      } else {
        message.mutable_delete_result()->set_checkpoint_id(1 + input.Below(4));
        message.mutable_delete_result()->set_ok(input.Chance(160));
      }
      if (!agent.assignments.empty()) {
        const uint64_t seq = agent.assignments.back();
        if (verify) message.mutable_verify_result()->set_outbox_seq(seq);
        if (!verify) message.mutable_delete_result()->set_outbox_seq(seq);
      }
      message.set_event_seq(++agent.said);
      return Send(agent, std::move(message));
    }
  }
}

void ControllerWorld::SendBulk(FuzzInput& input, Agent& agent) {
  v1::BulkBatch batch;
  if (agent.bulk == nullptr || agent.bulk->finished()) {
    agent.batches = 0;
    agent.bulk = std::make_shared<Bulk>(board_, Authorization());
    agent.bulk->Bind(workers_->Bulk(agent.bulk->context()));
    batch.mutable_hello()->set_worker_name(agent.name);
    batch.mutable_hello()->set_incarnation(agent.incarnation);
  }
  FillMessage(input, batch);
  if (!input.Chance(32)) batch.set_batch_id(++agent.batches);
  if (agent.bulk->Say(batch)) called_.insert("WorkerService.Bulk");
}

// ---- the world ----

ControllerWorld::ControllerWorld() : dir_(MakeFolder()) { Open(); }

ControllerWorld::~ControllerWorld() {
  Close();
  std::filesystem::remove_all(dir_);
}

void ControllerWorld::Open() {
  mc::EngineOptions options;
  options.data_dir = dir_;
  options.threads = false;
  options.on_fatal = [](const absl::Status& status) {
    Broken(absl::StrCat("state.db: ", status.ToString()));
  };
  auto engine = mc::Engine::Open(std::move(options), clock_);
  if (!engine.ok()) Broken(engine.status().ToString());
  engine_ = *std::move(engine);
  Shared& shared = Common();
  jobs_ = std::make_unique<mc::JobService>(*engine_, *shared.ingest, shared.gate, clock_, "/ckpt");
  page_ = std::make_unique<mc::PageService>(*engine_, *shared.ingest, shared.gate);
  admin_ = std::make_unique<mc::AdminService>(nullptr, *engine_, shared.gate);
  workers_ =
      std::make_unique<mc::WorkerService>(*engine_, *shared.ingest, shared.gate, exec_sessions_);
  execs_ = std::make_unique<mc::ExecService>(*engine_, shared.gate, exec_sessions_);
}

void ControllerWorld::Close() {
  if (engine_ == nullptr) return;
  jobs_->Stop();
  execs_->Stop();
  workers_->Stop();
  cancels_.clear();
  if (!board_.DeliverUntil([&] {
        engine_->RunUntilIdle();
        return board_.open() == 0;
      })) {
    Broken(absl::StrCat(board_.open(), " calls do not end"));
  }
  // The ingest outlives this engine: reads that streams left behind must not.
  auto read = std::make_shared<std::atomic<bool>>(false);
  Common().ingest->Read([this, read](mc::MetricsStore*, const absl::Status&) {
    *read = true;
    board_.Owe([] {});
  });
  if (!board_.DeliverUntil([&] { return read->load(); })) Broken("the ingest does not answer");
  agents_.clear();
  submits_.reset();
  person_exec_.reset();
  agent_exec_.reset();
  workers_.reset();
  execs_.reset();
  page_.reset();
  jobs_.reset();
  admin_.reset();
  engine_->Stop();
  engine_.reset();
}

void ControllerWorld::Restart() {
  Close();
  Open();
  // Disconnecting changed nothing durable, so that the state before is that of the last commit.
  CheckModel();
}

void ControllerWorld::CheckModel() {
  const std::vector<std::string> faults = ModelFaults(*engine_->snapshot());
  if (!faults.empty()) Broken(absl::StrJoin(faults, "; "));
}

void ControllerWorld::Settle() {
  // What the engine answers makes streams read on and agents hear, and so on.
  for (int i = 0; i < 3; ++i) {
    engine_->RunUntilIdle();
    board_.Deliver();
  }
  CheckModel();
}

void ControllerWorld::Step(FuzzInput& input) {
  Agent& agent = agents_[static_cast<int>(input.Below(kAgents))];
  const bool connected = agent.control != nullptr && !agent.control->finished();
  switch (input.Below(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
      CallPeople(input);
      break;
    case 4:
      if (!connected || input.Chance(64)) Connect(input, agent);
      break;
    case 5:
      if (connected) SayAnything(input, agent);
      break;
    case 7:
      if (input.Chance(64)) SendBulk(input, agent);
      if (input.Chance(64)) SayOfProgram(input);
      break;
    case 9:
      clock_.Advance(absl::Milliseconds(100) * input.Byte());
      break;
    case 10:
      if (connected && input.Chance(128)) {
        agent.control->HangUp();
      } else if (connected) {
        agent.control->Cancel();
      } else if (!cancels_.empty()) {
        cancels_.back()();
        cancels_.pop_back();
      }
      break;
    case 11:
      if (input.Chance(64)) {
        Restart();
        break;
      }
      [[fallthrough]];
    default:
      if (!connected) {
        Connect(input, agent);
      } else {
        agent.holds_back = input.Chance(96);
        SayWhatAnAgentWould(input, agent);
      }
  }
  Settle();
}

void ControllerWorld::Finish() {
  Settle();
  const std::string before = DescribeModel(*engine_->snapshot());
  Close();
  Open();
  const std::string after = DescribeModel(*engine_->snapshot());
  if (before != after) {
    Broken(absl::StrCat("a restart changed the model:\n", before, "----\n", after));
  }
  CheckModel();
}

}  // namespace muster::testing
