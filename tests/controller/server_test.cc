// The whole of musterd in one process, on ports that the system picks, with a scripted agent.
#include "controller/server.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <httplib.h>
#include <sys/stat.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/base/version.h"
#include "common/os/sha256.h"
#include "common/rpc/channel.h"
#include "common/rpc/packed_queue.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token.h"
#include "common/rpc/token_file.h"
#include "muster/v1/access_service.grpc.pb.h"
#include "muster/v1/exec_service.grpc.pb.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "muster/v1/upload_service.grpc.pb.h"
#include "muster/v1/worker_service.grpc.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_certificates.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::muster::testing::TestCertificates;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Runs every assignment at once: two steps, a result, done.
class ScriptedAgent {
 public:
  ScriptedAgent(const std::string& address, const std::string& token)
      : stub_(v1::WorkerService::NewStub(MakeChannel({.address = address}))) {
    AddToken(context_, token);
    AddToken(bulk_context_, token);
    stream_ = stub_->Control(&context_);
  }

  v1::Welcome Hello(const std::vector<v1::RankStatus>& ranks = {}) {
    v1::WorkerMessage message;
    v1::Hello* hello = message.mutable_hello();
    hello->set_protocol_version(kProtocolVersion);
    hello->set_worker_name("w1");
    hello->set_incarnation(kIncarnation);
    hello->set_pool("default");
    hello->set_advertise_address("127.0.0.1");
    hello->set_metrics_address("127.0.0.1:9");
    hello->add_slots()->set_kind(v1::CPU);
    for (const v1::RankStatus& rank : ranks) *hello->add_ranks() = rank;
    EXPECT_TRUE(stream_->Write(message));
    v1::ControllerMessage answer;
    EXPECT_TRUE(Next(answer));
    return answer.welcome();
  }
  // The next assignment, taken.
  v1::StartRanks TakeStart() {
    v1::ControllerMessage message;
    while (Next(message) && !message.has_start_ranks()) {
      if (message.has_watch_roots()) See(message.watch_roots());
    }
    v1::WorkerMessage ack;
    ack.mutable_assignment_ack()->set_outbox_seq(message.start_ranks().outbox_seq());
    EXPECT_TRUE(stream_->Write(ack));
    return message.start_ranks();
  }
  // All checkpoint roots that it is asked about.
  void See(const v1::WatchRoots& roots) {
    v1::WorkerMessage message;
    message.mutable_heartbeat()->set_seq(++heartbeat_seq_);
    for (const v1::WatchRoots::Root& root : roots.roots()) {
      v1::RootReport::Root* row = message.mutable_heartbeat()->mutable_roots()->add_roots();
      row->set_path(root.path());
      row->set_identity(root.identity().empty() ? root.claim() : root.identity());
    }
    EXPECT_TRUE(stream_->Write(message));
  }
  void Report(const v1::Fence& fence, v1::RankEvent::Kind kind) {
    v1::WorkerMessage message;
    message.set_event_seq(++event_seq_);
    v1::RankEvent* event = message.mutable_rank_event();
    *event->mutable_fence() = fence;
    event->set_kind(kind);
    event->set_pid(1);
    event->set_succeeded(kind == v1::RankEvent::EXITED);
    event->set_last_step(2);
    if (kind == v1::RankEvent::EXITED) (*event->mutable_results())["test_accuracy"] = 0.75;
    EXPECT_TRUE(stream_->Write(message));
    v1::ControllerMessage answer;
    while (Next(answer) && !answer.has_event_ack()) {
    }
    EXPECT_EQ(answer.event_ack().event_seq(), event_seq_);
  }
  void SendBulk(const v1::Fence& fence) {
    auto bulk = stub_->Bulk(&bulk_context_);
    v1::BulkBatch batch;
    batch.mutable_hello()->set_worker_name("w1");
    batch.mutable_hello()->set_incarnation(kIncarnation);
    batch.set_batch_id(1);
    for (uint64_t step : {1, 2}) {
      v1::MetricRecord* record = batch.add_metrics();
      record->set_job_id(fence.job_id());
      record->set_attempt(fence.attempt());
      record->set_generation(fence.generation());
      record->set_seq(step);
      v1::MetricPoint* point = record->add_points();
      point->set_name("loss");
      point->set_step(static_cast<int64_t>(step));
      point->set_value(1.0 / static_cast<double>(step));
    }
    v1::LogRecord* log = batch.add_logs();
    log->set_job_id(fence.job_id());
    log->set_attempt(fence.attempt());
    log->set_generation(fence.generation());
    log->set_text("hello from rank 0\n");
    EXPECT_TRUE(bulk->Write(batch));
    v1::BulkAck ack;
    EXPECT_TRUE(bulk->Read(&ack));
    EXPECT_EQ(ack.batch_id(), 1u);
    bulk->WritesDone();
    EXPECT_FALSE(bulk->Read(&ack));
    EXPECT_OK(FromGrpc(bulk->Finish()));
  }
  absl::Status End() {
    v1::ControllerMessage message;
    while (Next(message)) {
    }
    return FromGrpc(stream_->Finish());
  }
  absl::Status HangUp() {
    stream_->WritesDone();
    return End();
  }

 private:
  // False: the stream has ended. What waited at once comes in one message.
  bool Next(v1::ControllerMessage& message) {
    if (read_.empty()) {
      v1::ControllerMessage packed;
      if (!stream_->Read(&packed)) return false;
      ForEachPacked(packed, [this](const v1::ControllerMessage& each) {
        read_.push_back(each);
        return true;
      });
    }
    message = std::move(read_.front());
    read_.pop_front();
    return true;
  }

  const std::string kIncarnation = std::string(16, 'i');
  std::deque<v1::ControllerMessage> read_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  grpc::ClientContext bulk_context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::ControllerMessage>> stream_;
  uint64_t heartbeat_seq_ = 0;
  uint64_t event_seq_ = 0;
};

class ServerTest : public ::testing::Test {
 protected:
  Config MakeConfig() {
    Config config;
    config.data_dir = dir_ / "data";
    config.checkpoint_root = dir_ / "checkpoints";
    config.listen = config.worker_listen = config.http_listen = "127.0.0.1:0";
    return config;
  }
  absl::StatusOr<std::unique_ptr<Server>> Start(const Config& config) {
    return Server::Start(config, clock_,
                         [](const absl::Status& status) { ADD_FAILURE() << status.ToString(); });
  }
  void Start() {
    server_.reset();
    auto server = Start(MakeConfig());
    ASSERT_OK(server);
    server_ = *std::move(server);
    auto token = ReadTokenFile(dir_ / "data/token");
    ASSERT_OK(token);
    token_ = *token;
    channel_ = MakeChannel({.address = server_->grpc_address()});
    stub_ = v1::JobService::NewStub(channel_);
  }
  void Prepare(grpc::ClientContext& context) { AddToken(context, token_); }
  // The answer to a call of JobService.
  template <typename Request, typename Response>
  Response Ask(grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                            Response*),
               const Request& request) {
    grpc::ClientContext context;
    Prepare(context);
    Response response;
    EXPECT_OK(FromGrpc((stub_.get()->*method)(&context, request, &response)));
    return response;
  }

  static v1::SubmitRequest SubmitOf(const std::string& key) {
    v1::SubmitRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_idempotency_key(key);
    v1::JobSpec* spec = request.mutable_spec();
    spec->set_name("digits");
    spec->mutable_placement()->set_wait_for_capacity(true);
    spec->mutable_train()->mutable_model()->mutable_mlp();
    spec->mutable_train()->mutable_data()->mutable_synthetic();
    spec->mutable_train()->set_batch_size(32);
    spec->mutable_train()->set_steps(2);
    return request;
  }
  uint64_t Submit(const std::string& key) {
    grpc::ClientContext context;
    Prepare(context);
    v1::SubmitResponse response;
    EXPECT_OK(FromGrpc(stub_->Submit(&context, SubmitOf(key), &response)));
    return response.job_id();
  }
  // Reads the watch until the job is in that state.
  v1::JobSummary WaitFor(uint64_t job_id, v1::JobState state) {
    grpc::ClientContext context;
    Prepare(context);
    v1::WatchJobRequest request;
    request.mutable_job()->set_id(job_id);
    auto reader = stub_->WatchJob(&context, request);
    v1::WatchJobResponse response;
    while (reader->Read(&response) && response.summary().state() != state) {
    }
    context.TryCancel();
    EXPECT_EQ(response.summary().state(), state) << response.summary().message();
    return response.summary();
  }
  std::string Get(const std::string& path) {
    httplib::Client client("http://" + server_->http_address());
    const auto answer = client.Get(path);
    return answer ? answer->body : "no answer";
  }

  TempDir dir_;
  RealClock clock_;
  std::unique_ptr<Server> server_;
  std::string token_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> stub_;
};

TEST_F(ServerTest, AStreamOfSubmitsThatWasCutIsRepeatedWithTheSameKeys) {
  Start();
  v1::SubmitJobsRequest message;
  for (const char* key : {"a", "b", "a", "c"}) *message.add_submits() = SubmitOf(key);
  {
    grpc::ClientContext context;
    Prepare(context);
    auto stream = stub_->SubmitJobs(&context);
    ASSERT_TRUE(stream->Write(message));
    ASSERT_TRUE(stream->Write(message));
    v1::SubmitJobsResponse response;
    ASSERT_TRUE(stream->Read(&response));
    context.TryCancel();  // the second answer is never seen
    EXPECT_FALSE(FromGrpc(stream->Finish()).ok());
  }
  server_.reset();
  Start();
  grpc::ClientContext context;
  Prepare(context);
  auto stream = stub_->SubmitJobs(&context);
  ASSERT_TRUE(stream->Write(message));
  v1::SubmitJobsResponse response;
  ASSERT_TRUE(stream->Read(&response));
  std::vector<uint64_t> ids;
  for (const v1::SubmitOutcome& outcome : response.outcomes()) {
    EXPECT_TRUE(outcome.already_existed());
    ids.push_back(outcome.job_id());
  }
  EXPECT_THAT(ids, ElementsAre(1, 2, 1, 3));
  EXPECT_EQ(Submit("d"), 4u);
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_OK(FromGrpc(stream->Finish()));
}

TEST_F(ServerTest, AJobRunsToItsEnd) {
  Start();
  const uint64_t job_id = Submit("key");
  EXPECT_EQ(Submit("key"), job_id);
  ScriptedAgent agent(server_->worker_address(), token_);
  EXPECT_EQ(agent.Hello().term(), 1u);
  const v1::StartRanks start = agent.TakeStart();
  EXPECT_EQ(start.fence().job_id(), job_id);
  EXPECT_THAT(start.spec_json(), HasSubstr("\"steps\""));
  EXPECT_THAT(start.checkpoint_root(), StartsWith((dir_ / "checkpoints") + "/job-1-"));
  agent.Report(start.fence(), v1::RankEvent::STARTED);
  agent.Report(start.fence(), v1::RankEvent::RUNNING);
  EXPECT_THAT(Get("/sd"), HasSubstr("127.0.0.1:9"));
  EXPECT_THAT(Get("/metrics"),
              HasSubstr("muster_job_state{job_id=\"1\",job_name=\"digits\",state=\"running\"} 1"));
  EXPECT_THAT(Get("/api/v1/jobs"), HasSubstr("digits"));
  agent.SendBulk(start.fence());
  agent.Report(start.fence(), v1::RankEvent::EXITED);
  EXPECT_EQ(WaitFor(job_id, v1::SUCCEEDED).test_accuracy(), 0.75);

  grpc::ClientContext metrics_context;
  Prepare(metrics_context);
  v1::QueryMetricsRequest query;
  query.mutable_job()->set_id(job_id);
  v1::QueryMetricsResponse points;
  ASSERT_OK(FromGrpc(stub_->QueryMetrics(&metrics_context, query, &points)));
  ASSERT_EQ(points.points_size(), 2);
  EXPECT_EQ(points.points(1).value(), 0.5);

  grpc::ClientContext log_context;
  Prepare(log_context);
  v1::StreamLogsRequest logs;
  logs.mutable_job()->set_id(job_id);
  v1::StreamLogsResponse text;
  auto reader = stub_->StreamLogs(&log_context, logs);
  ASSERT_TRUE(reader->Read(&text));
  EXPECT_EQ(text.text(), "hello from rank 0\n");
  EXPECT_OK(agent.HangUp());
}

TEST_F(ServerTest, ARestartKeepsTheJobAndAdoptsItsRank) {
  Start();
  const uint64_t job_id = Submit("key");
  v1::Fence fence;
  {
    ScriptedAgent agent(server_->worker_address(), token_);
    agent.Hello();
    fence = agent.TakeStart().fence();
    agent.Report(fence, v1::RankEvent::STARTED);
    agent.Report(fence, v1::RankEvent::RUNNING);
    server_->Stop();
    EXPECT_THAT(agent.End(), StatusIs(absl::StatusCode::kUnavailable));
  }
  const std::string token_before = token_;
  Start();
  EXPECT_EQ(token_, token_before);
  EXPECT_EQ(server_->term(), 2u);
  EXPECT_EQ(Submit("key"), job_id)
      << "an acknowledged submit survives, and its repeat starts nothing";
  v1::RankStatus alive;
  *alive.mutable_fence() = fence;
  ScriptedAgent agent(server_->worker_address(), token_);
  const v1::Welcome welcome = agent.Hello({alive});
  EXPECT_EQ(welcome.term(), 2u);
  EXPECT_EQ(welcome.stale_size(), 0);
  EXPECT_EQ(WaitFor(job_id, v1::RUNNING).attempt(), 1u);
  EXPECT_OK(agent.HangUp());
}

TEST_F(ServerTest, EndpointsNameThePortsAndGoAwayAtAStop) {
  Start();
  std::ifstream file(dir_ / "data/endpoints.json");
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["grpc_address"], server_->grpc_address());
  EXPECT_EQ(json["worker_address"], server_->worker_address());
  EXPECT_EQ(json["http_address"], server_->http_address());
  EXPECT_EQ(json["pid"], ::getpid());
  EXPECT_EQ(json["term"], 1);
  EXPECT_EQ(json["version"], Version());
  struct stat info;
  ASSERT_EQ(::stat((dir_ / "data/token").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(token_.size(), 64u);
  server_->Stop();
  EXPECT_FALSE(std::ifstream(dir_ / "data/endpoints.json").good());
}

TEST_F(ServerTest, ASecondOneOnTheSameFolderIsRefusedAndHarmsNothing) {
  Start();
  EXPECT_THAT(Start(MakeConfig()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(dir_ / "data"), HasSubstr(std::to_string(::getpid())))));
  EXPECT_TRUE(std::ifstream(dir_ / "data/endpoints.json").good());
  EXPECT_EQ(Get("/readyz"), "ok\n");
}

TEST_F(ServerTest, ABrokenMetricsDatabaseIsSetAsideAndStopsNothing) {
  Start();
  server_->Stop();
  server_.reset();
  std::ofstream(dir_ / "data/metrics.db") << "this was a database";
  Start();
  EXPECT_THAT(Get("/readyz"), AllOf(HasSubstr("ok\n"), HasSubstr("metrics.db was broken"),
                                    HasSubstr("metrics.db.broken-")));
}

TEST_F(ServerTest, ATakenPortIsNamed) {
  Start();
  Config config = MakeConfig();
  config.data_dir = dir_ / "other";
  config.listen = server_->grpc_address();
  EXPECT_THAT(Start(config),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(config.listen)));
  config = MakeConfig();
  config.data_dir = dir_ / "third";
  config.http_listen = server_->http_address();
  EXPECT_THAT(Start(config),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(config.http_listen)));
}

TEST_F(ServerTest, ServesWhileItsCheckpointRootCannotBeReached) {
  std::ofstream(dir_ / "file") << "no folder";
  Config config = MakeConfig();
  config.checkpoint_root = dir_ / "file/checkpoints";
  auto server = Start(config);
  ASSERT_OK(server);
  server_ = *std::move(server);
  EXPECT_EQ(Get("/readyz"), "ok\n");
}

TEST_F(ServerTest, OnlyTheDefaultCheckpointRootIsMade) {
  Start();
  EXPECT_FALSE(std::filesystem::exists(dir_ / "checkpoints")) << "it may be a mount that is away";
  server_.reset();
  Config config = MakeConfig();
  config.checkpoint_root = dir_ / "data/checkpoints";
  config.own_checkpoint_root = true;
  ASSERT_OK(Start(config));
  EXPECT_TRUE(std::filesystem::is_directory(dir_ / "data/checkpoints"));
}

TEST_F(ServerTest, BeyondLoopbackNeedsInsecure) {
  Config config = MakeConfig();
  config.worker_listen = "0.0.0.0:0";
  EXPECT_THAT(Start(config),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--insecure")));
}

TEST_F(ServerTest, ATokenThatOthersCanReadIsRefused) {
  Start();
  server_->Stop();
  server_.reset();
  ASSERT_EQ(::chmod((dir_ / "data/token").c_str(), 0644), 0);
  EXPECT_THAT(Start(MakeConfig()),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("token")));
}

TEST_F(ServerTest, HealthIsFreeAndServes) {
  Start();
  // grpc.health.v1.HealthCheckResponse: field 1, varint 1 (SERVING).
  grpc::GenericStub stub(channel_);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  const grpc::Slice nothing("");
  const grpc::ByteBuffer request(&nothing, 1);
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  void* tag = nullptr;
  bool ok = false;
  call->Finish(&response, &status, &tag);
  queue.Next(&tag, &ok);
  ASSERT_OK(FromGrpc(status));
  grpc::Slice slice;
  ASSERT_TRUE(response.DumpToSingleSlice(&slice).ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(slice.begin()), slice.size()), "\x08\x01");
}

TEST_F(ServerTest, AMessageBeyondTheBoundIsRefused) {
  Start();
  grpc::ClientContext context;
  Prepare(context);
  v1::SubmitRequest request;
  request.mutable_spec()->set_name(std::string(5 << 20, 'x'));
  v1::SubmitResponse response;
  EXPECT_THAT(FromGrpc(stub_->Submit(&context, request, &response)),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

// One message of an agent that calls itself `name`: how the stream ends, or OK with an answer.
absl::Status SayHello(const std::string& address, const TlsFiles& tls, const std::string& name) {
  const auto stub = v1::WorkerService::NewStub(MakeChannel({.address = address, .tls = tls}));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  const auto stream = stub->Control(&context);
  v1::WorkerMessage message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_protocol_version(kProtocolVersion);
  hello->set_worker_name(name);
  hello->set_incarnation(std::string(16, 'i'));
  hello->set_pool("default");
  hello->set_advertise_address("127.0.0.1");
  hello->set_metrics_address("127.0.0.1:9");
  hello->add_slots()->set_kind(v1::CPU);
  stream->Write(message);
  v1::ControllerMessage answer;
  if (stream->Read(&answer)) return absl::OkStatus();
  return FromGrpc(stream->Finish());
}

absl::Status SayBulkHello(const std::string& address, const TlsFiles& tls,
                          const std::string& name) {
  const auto stub = v1::WorkerService::NewStub(MakeChannel({.address = address, .tls = tls}));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  const auto stream = stub->Bulk(&context);
  v1::BulkBatch batch;
  batch.mutable_hello()->set_worker_name(name);
  batch.mutable_hello()->set_incarnation(std::string(16, 'i'));
  batch.set_batch_id(1);
  stream->Write(batch);
  v1::BulkAck answer;
  if (stream->Read(&answer)) return absl::OkStatus();
  return FromGrpc(stream->Finish());
}

class TlsServerTest : public ServerTest {
 protected:
  void SetUp() override {
    Config config = MakeConfig();
    config.tls = certificates_.OfServer();
    ASSERT_OK_AND_ASSIGN(server_, Start(config));
    ASSERT_OK_AND_ASSIGN(token_, ReadTokenFile(dir_ / "data/token"));
  }
  absl::Status Version(const TlsFiles& tls, const std::string& token) {
    const auto stub =
        v1::JobService::NewStub(MakeChannel({.address = server_->grpc_address(), .tls = tls}));
    grpc::ClientContext context;
    AddToken(context, token);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    v1::GetVersionResponse response;
    return FromGrpc(stub->GetVersion(&context, {}, &response));
  }

  TempDir certificates_dir_;
  TestCertificates certificates_{certificates_dir_.path()};
  const TlsFiles ca_only_{.ca = certificates_dir_ / "ca.pem"};
};

TEST_F(TlsServerTest, PeopleComeWithTheCaAndTheToken) {
  EXPECT_OK(Version(ca_only_, token_));
  EXPECT_THAT(Version(ca_only_, ""), StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(Version(ca_only_, std::string(64, 'a')),
              StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(Version({}, token_), StatusIs(absl::StatusCode::kUnavailable));
  // A worker's certificate opens nothing here.
  EXPECT_THAT(Version(certificates_.OfWorker("w1"), ""),
              StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(TlsServerTest, AWorkerSpeaksForItselfAlone) {
  const std::string address = server_->worker_address();
  const TlsFiles own = certificates_.OfWorker("w1");
  EXPECT_THAT(SayHello(address, own, "w2"),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("w1")));
  EXPECT_THAT(SayBulkHello(address, own, "w2"),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("w1")));
  EXPECT_OK(SayHello(address, own, "w1"));
  // The token, which people have, is no certificate.
  EXPECT_THAT(SayHello(address, ca_only_, "w1"), StatusIs(absl::StatusCode::kUnavailable));
}

// An agent with a certificate of its own that says what the test wants, and reads what comes.
class CertifiedAgent {
 public:
  CertifiedAgent(const std::string& address, const TlsFiles& tls, const std::string& name)
      : channel_(MakeChannel({.address = address, .tls = tls})),
        stub_(v1::WorkerService::NewStub(channel_)),
        name_(name),
        incarnation_(16, name.back()) {
    stream_ = stub_->Control(&context_);
    v1::WorkerMessage message;
    v1::Hello* hello = message.mutable_hello();
    hello->set_protocol_version(kProtocolVersion);
    hello->set_worker_name(name_);
    hello->set_incarnation(incarnation_);
    hello->set_pool("default");
    hello->set_advertise_address("127.0.0.1");
    hello->set_metrics_address("127.0.0.1:9");
    hello->set_allows_commands(true);
    hello->add_slots()->set_kind(v1::CPU);
    Send(message);
    EXPECT_TRUE(Await(&v1::ControllerMessage::has_welcome).has_welcome()) << name;
  }
  ~CertifiedAgent() { context_.TryCancel(); }

  void Send(const v1::WorkerMessage& message) { EXPECT_TRUE(stream_->Write(message)) << name_; }
  // A numbered report; returns when the controller has taken it.
  void Report(v1::WorkerMessage message) {
    message.set_event_seq(++event_seq_);
    Send(message);
    const v1::ControllerMessage answer = Await(&v1::ControllerMessage::has_event_ack);
    EXPECT_EQ(answer.event_ack().event_seq(), event_seq_) << name_;
  }
  // The next message of that kind. What else comes is dropped; roots are seen.
  v1::ControllerMessage Await(bool (v1::ControllerMessage::*is_it)() const) {
    while (true) {
      while (!read_.empty()) {
        const v1::ControllerMessage next = std::move(read_.front());
        read_.pop_front();
        if ((next.*is_it)()) return next;
        if (next.has_watch_roots()) See(next.watch_roots());
      }
      v1::ControllerMessage packed;
      if (!stream_->Read(&packed)) {
        ADD_FAILURE() << name_ << ": the stream has ended";
        return {};
      }
      ForEachPacked(packed, [this](const v1::ControllerMessage& each) {
        read_.push_back(each);
        return true;
      });
    }
  }
  // One batch over a stream of its own.
  void SendBulk(v1::BulkBatch batch) {
    grpc::ClientContext context;
    auto bulk = stub_->Bulk(&context);
    batch.mutable_hello()->set_worker_name(name_);
    batch.mutable_hello()->set_incarnation(incarnation_);
    batch.set_batch_id(1);
    EXPECT_TRUE(bulk->Write(batch));
    v1::BulkAck ack;
    EXPECT_TRUE(bulk->Read(&ack));
    bulk->WritesDone();
    EXPECT_FALSE(bulk->Read(&ack));
    EXPECT_OK(FromGrpc(bulk->Finish()));
  }
  absl::Status Fetch(const std::string& sha256) {
    grpc::ClientContext context;
    v1::FetchUploadRequest request;
    request.set_sha256(sha256);
    const auto stream = v1::UploadService::NewStub(channel_)->Fetch(&context, request);
    v1::FetchUploadResponse piece;
    while (stream->Read(&piece)) {
    }
    return FromGrpc(stream->Finish());
  }
  // Names the session, says `output`, and waits for the end.
  absl::Status AttachExec(const std::string& session, const v1::ExecOutput& output) {
    grpc::ClientContext context;
    const auto stream = stub_->Exec(&context);
    v1::ExecOutput first;
    first.set_session(session);
    stream->Write(first);
    stream->Write(output);
    stream->WritesDone();
    v1::ExecInput input;
    while (stream->Read(&input)) {
    }
    return FromGrpc(stream->Finish());
  }

 private:
  void See(const v1::WatchRoots& roots) {
    v1::WorkerMessage message;
    message.mutable_heartbeat()->set_seq(++heartbeat_seq_);
    for (const v1::WatchRoots::Root& root : roots.roots()) {
      v1::RootReport::Root* row = message.mutable_heartbeat()->mutable_roots()->add_roots();
      row->set_path(root.path());
      row->set_identity(root.identity().empty() ? root.claim() : root.identity());
    }
    Send(message);
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  const std::string name_;
  const std::string incarnation_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::ControllerMessage>> stream_;
  std::deque<v1::ControllerMessage> read_;
  uint64_t heartbeat_seq_ = 0;
  uint64_t event_seq_ = 0;
};

v1::WorkerMessage RankEventOf(const v1::Fence& fence, v1::RankEvent::Kind kind) {
  v1::WorkerMessage message;
  *message.mutable_rank_event()->mutable_fence() = fence;
  message.mutable_rank_event()->set_kind(kind);
  message.mutable_rank_event()->set_pid(1);
  return message;
}

// What a worker may say and ask for with its own certificate of a rank that lives on another: w1
// has the rank of a job that runs in an uploaded folder, and w2 lies.
class OtherWorkersKeyTest : public TlsServerTest {
 protected:
  void SetUp() override {
    TlsServerTest::SetUp();
    channel_ = MakeChannel({.address = server_->grpc_address(), .tls = ca_only_});
    stub_ = v1::JobService::NewStub(channel_);
    Upload("the folder");
    w1_.emplace(server_->worker_address(), certificates_.OfWorker("w1"), "w1");
    Submit();
    start_ = w1_->Await(&v1::ControllerMessage::has_start_ranks).start_ranks();
    ASSERT_EQ(fence().job_id(), job_);
  }

  // A worker that comes later: what is given out before is w1's.
  CertifiedAgent MakeW2() {
    return {server_->worker_address(), certificates_.OfWorker("w2"), "w2"};
  }
  const v1::Fence& fence() const { return start_.fence(); }
  // What was given out so, taken or refused.
  v1::WorkerMessage AckOf(const std::string& refusal = "") const {
    v1::WorkerMessage ack;
    ack.mutable_assignment_ack()->set_outbox_seq(start_.outbox_seq());
    ack.mutable_assignment_ack()->set_refusal(refusal);
    return ack;
  }
  void RunRank() {
    w1_->Send(AckOf());
    w1_->Report(RankEventOf(fence(), v1::RankEvent::STARTED));
    w1_->Report(RankEventOf(fence(), v1::RankEvent::RUNNING));
    ASSERT_EQ(Shown().summary().state(), v1::RUNNING);
  }
  v1::WorkerMessage CheckpointEventOf(v1::CheckpointEvent::Kind kind) const {
    v1::WorkerMessage report;
    v1::CheckpointEvent* event = report.mutable_checkpoint_event();
    *event->mutable_fence() = fence();
    event->set_kind(kind);
    event->set_step(40);
    event->set_path(start_.checkpoint_root() + "/step-40.a1.g1.x");
    event->set_manifest_sha256(std::string(64, 'a'));
    return report;
  }
  v1::GetJobResponse Shown() {
    v1::GetJobRequest request;
    request.mutable_job()->set_id(job_);
    return Ask(&v1::JobService::Stub::GetJob, request);
  }
  v1::ListCheckpointsResponse Checkpoints() {
    v1::ListCheckpointsRequest request;
    request.mutable_job()->set_id(job_);
    return Ask(&v1::JobService::Stub::ListCheckpoints, request);
  }
  std::string Log() {
    grpc::ClientContext context;
    Prepare(context);
    v1::StreamLogsRequest request;
    request.mutable_job()->set_id(job_);
    const auto reader = stub_->StreamLogs(&context, request);
    std::string all;
    v1::StreamLogsResponse text;
    while (reader->Read(&text)) all += text.text();
    return all;
  }

  uint64_t job_ = 0;
  std::optional<CertifiedAgent> w1_;
  v1::StartRanks start_;

 private:
  void Upload(const std::string& folder) {
    grpc::ClientContext context;
    Prepare(context);
    v1::UploadResponse stored;
    const auto stream = v1::UploadService::NewStub(channel_)->Upload(&context, &stored);
    v1::UploadRequest request;
    request.set_sha256(Sha256Hex(folder));
    request.set_bytes(folder.size());
    request.set_data(folder);
    ASSERT_TRUE(stream->Write(request));
    stream->WritesDone();
    ASSERT_OK(FromGrpc(stream->Finish()));
  }
  void Submit() {
    v1::SubmitRequest submit = SubmitOf("key");
    submit.mutable_spec()->clear_train();
    submit.mutable_spec()->mutable_command()->add_argv("true");
    submit.mutable_spec()->mutable_command()->set_upload(Sha256Hex("the folder"));
    grpc::ClientContext context;
    Prepare(context);
    v1::SubmitResponse submitted;
    ASSERT_OK(FromGrpc(stub_->Submit(&context, submit, &submitted)));
    job_ = submitted.job_id();
  }
};

TEST_F(OtherWorkersKeyTest, NothingItReportsOfTheRankCounts) {
  CertifiedAgent w2 = MakeW2();
  w2.Send(AckOf("no"));  // then the rank would be placed anew
  RunRank();
  const int attempts = Shown().attempts_size();
  for (const v1::RankEvent::Kind kind : {v1::RankEvent::STARTED, v1::RankEvent::RUNNING,
                                         v1::RankEvent::UNKILLABLE, v1::RankEvent::EXITED}) {
    v1::WorkerMessage report = RankEventOf(fence(), kind);
    w2.Report(report);
    report.mutable_rank_event()->set_succeeded(true);
    w2.Report(report);
  }
  for (int op = v1::StoreRequest::SET; op <= v1::StoreRequest::COUNT; ++op) {
    v1::WorkerMessage store;
    *store.mutable_store_request()->mutable_fence() = fence();
    store.mutable_store_request()->set_op(static_cast<v1::StoreRequest::Op>(op));
    store.mutable_store_request()->add_keys("port");
    w2.Send(store);
    EXPECT_THAT(w2.Await(&v1::ControllerMessage::has_store_reply).store_reply().error(),
                HasSubstr("has no such live rank on this worker"))
        << op;
  }
  // A heartbeat that says how far the rank is.
  v1::WorkerMessage beat;
  beat.mutable_heartbeat()->set_seq(1000);
  v1::RankStatus* status = beat.mutable_heartbeat()->add_ranks();
  *status->mutable_fence() = fence();
  status->set_step(77);
  w2.Send(beat);
  while (w2.Await(&v1::ControllerMessage::has_heartbeat_ack).heartbeat_ack().seq() < 1000) {
  }
  const v1::GetJobResponse after = Shown();
  EXPECT_EQ(after.summary().state(), v1::RUNNING);
  EXPECT_EQ(after.attempts_size(), attempts);
  EXPECT_EQ(after.summary().step(), 0);
  EXPECT_EQ(after.summary().restarts(), 0u);
  v1::WorkerMessage ended = RankEventOf(fence(), v1::RankEvent::EXITED);
  ended.mutable_rank_event()->set_succeeded(true);
  w1_->Report(ended);
  EXPECT_EQ(Shown().summary().state(), v1::SUCCEEDED);
}

// w1 sends the same after it, which counts.
TEST_F(OtherWorkersKeyTest, NoMetricAndNoLineOfTheRankIsStored) {
  RunRank();
  CertifiedAgent w2 = MakeW2();
  const auto batch_of = [&](const std::string& text) {
    v1::BulkBatch batch;
    v1::MetricRecord* record = batch.add_metrics();
    record->set_job_id(job_);
    record->set_attempt(fence().attempt());
    record->set_generation(fence().generation());
    record->set_seq(1);
    v1::MetricPoint* point = record->add_points();
    point->set_name("loss");
    point->set_step(1);
    point->set_value(0.25);
    v1::LogRecord* log = batch.add_logs();
    log->set_job_id(job_);
    log->set_attempt(fence().attempt());
    log->set_generation(fence().generation());
    log->set_text(text);
    return batch;
  };
  v1::QueryMetricsRequest query;
  query.mutable_job()->set_id(job_);
  w2.SendBulk(batch_of("a lie\n"));
  EXPECT_EQ(Ask(&v1::JobService::Stub::QueryMetrics, query).points_size(), 0);
  EXPECT_EQ(Log(), "");
  w1_->SendBulk(batch_of("the truth\n"));
  EXPECT_EQ(Ask(&v1::JobService::Stub::QueryMetrics, query).points_size(), 1);
  EXPECT_EQ(Log(), "the truth\n");
}

TEST_F(OtherWorkersKeyTest, NoCheckpointIsCommittedVerifiedOrDeletedByIt) {
  RunRank();
  w1_->Report(CheckpointEventOf(v1::CheckpointEvent::BEGIN));
  w1_->Report(CheckpointEventOf(v1::CheckpointEvent::COMMIT));
  const v1::VerifyCheckpoint asked =
      w1_->Await(&v1::ControllerMessage::has_verify_checkpoint).verify_checkpoint();
  ASSERT_EQ(Checkpoints().checkpoints_size(), 1);
  const std::string committed = Checkpoints().checkpoints(0).ShortDebugString();

  CertifiedAgent w2 = MakeW2();
  for (const v1::CheckpointEvent::Kind kind :
       {v1::CheckpointEvent::BEGIN, v1::CheckpointEvent::COMMIT, v1::CheckpointEvent::FAILED,
        v1::CheckpointEvent::CORRUPT, v1::CheckpointEvent::UNREAD}) {
    v1::WorkerMessage report = CheckpointEventOf(kind);
    w2.Report(report);
    report.mutable_checkpoint_event()->set_path(start_.checkpoint_root() + "/step-41.a1.g1.y");
    w2.Report(report);
  }
  v1::WorkerMessage verified;
  verified.mutable_verify_result()->set_outbox_seq(asked.outbox_seq());
  verified.mutable_verify_result()->set_checkpoint_id(asked.checkpoint_id());
  w2.Report(verified);
  v1::WorkerMessage deleted;
  deleted.mutable_delete_result()->set_outbox_seq(asked.outbox_seq());
  deleted.mutable_delete_result()->set_checkpoint_id(asked.checkpoint_id());
  deleted.mutable_delete_result()->set_ok(true);
  w2.Report(deleted);
  ASSERT_EQ(Checkpoints().checkpoints_size(), 1);
  EXPECT_EQ(Checkpoints().checkpoints(0).ShortDebugString(), committed);

  verified.mutable_verify_result()->set_ok(true);
  w1_->Report(verified);
  EXPECT_NE(Checkpoints().checkpoints(0).ShortDebugString(), committed);
}

TEST_F(OtherWorkersKeyTest, AProgramOfMusterExecIsNotHandedToIt) {
  RunRank();
  CertifiedAgent w2 = MakeW2();
  grpc::ClientContext context;
  Prepare(context);
  const auto person = v1::ExecService::NewStub(channel_)->Exec(&context);
  v1::ExecRequest request;
  request.mutable_start()->mutable_job()->set_id(job_);
  request.mutable_start()->add_argv("true");
  ASSERT_TRUE(person->Write(request));
  const std::string session =
      w1_->Await(&v1::ControllerMessage::has_start_exec).start_exec().session();
  v1::ExecOutput lie;
  lie.set_stdout("a lie");
  EXPECT_THAT(w2.AttachExec(session, lie), StatusIs(absl::StatusCode::kPermissionDenied));
  lie.mutable_end()->set_exit_code(7);
  EXPECT_OK(w1_->AttachExec(session, lie));
  v1::ExecOutput output;
  ASSERT_TRUE(person->Read(&output));
  EXPECT_EQ(output.end().exit_code(), 7) << output.ShortDebugString();
}

TEST_F(OtherWorkersKeyTest, TheFolderOfTheJobIsNotGivenToIt) {
  const std::string upload = Sha256Hex("the folder");
  EXPECT_OK(w1_->Fetch(upload)) << "before the assignment is taken, as an agent does";
  CertifiedAgent w2 = MakeW2();
  EXPECT_THAT(w2.Fetch(upload),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("on worker w2")));
  EXPECT_THAT(w2.Fetch(Sha256Hex("what is not there")),
              StatusIs(absl::StatusCode::kPermissionDenied))
      << "nor does it hear what is there";
  v1::ListAuditRequest audit;
  audit.set_denied(true);
  v1::ListAuditResponse denials;
  grpc::ClientContext context;
  Prepare(context);
  ASSERT_OK(FromGrpc(v1::AccessService::NewStub(channel_)->ListAudit(&context, audit, &denials)));
  EXPECT_THAT(denials.DebugString(),
              AllOf(HasSubstr("UploadService/Fetch"), HasSubstr("on worker w2")));
  RunRank();
  EXPECT_OK(w1_->Fetch(upload));
}

}  // namespace
}  // namespace muster::controller
