// Both services behind one in-process gRPC server on a port that the system picks, over a
// FakeEngine and a real ingest.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/metrics/metric_names.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token.h"
#include "controller/api/access_service.h"
#include "controller/api/exec_service.h"
#include "controller/api/job_service.h"
#include "controller/api/worker_service.h"
#include "tests/controller/api/fake_engine.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {

inline constexpr char kToken[] = "secret-of-this-test";

class ApiFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    gate_ = std::make_unique<CallGate>(kToken, families_, clock_, limit_, patience_, access());
    if (access() != nullptr) {
      access_service_ = std::make_unique<AccessService>(*access(), *gate_, "id");
    }
    MetricsIngestOptions options;
    options.path = dir_ / "metrics.db";
    auto ingest = MetricsIngest::Open(std::move(options), clock_);
    ASSERT_OK(ingest);
    ingest_ = *std::move(ingest);
    ingest_->Start();
    jobs_ = std::make_unique<JobService>(engine_, reader(), *gate_, clock_, "/ckpt");
    workers_ = std::make_unique<WorkerService>(engine_, *ingest_, *gate_, exec_sessions_);
    execs_ = std::make_unique<ExecService>(engine_, *gate_, exec_sessions_);
    grpc::ServerBuilder builder;
    AllowClientPings(builder);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(jobs_.get());
    builder.RegisterService(workers_.get());
    builder.RegisterService(execs_.get());
    if (access_service_ != nullptr) builder.RegisterService(access_service_.get());
    RegisterMore(builder);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    address_ = "127.0.0.1:" + std::to_string(port);
    channel_ = MakeChannel({.address = address_});
    stub_ = v1::JobService::NewStub(channel_);
    worker_stub_ = v1::WorkerService::NewStub(channel_);
  }
  void TearDown() override {
    jobs_->Stop();
    execs_->Stop();
    workers_->Stop();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
    server_->Wait();
    ingest_->Stop();
  }

  // What people's questions about metrics and logs are answered by.
  virtual MetricsReader& reader() { return *ingest_; }

  // Whose tokens are known besides; null: nobody's.
  virtual AccessControl* access() { return nullptr; }

  // Further services, which live until TearDown has ended the server.
  virtual void RegisterMore(grpc::ServerBuilder&) {}

  // Calls any method ("/muster.v1.JobService/Submit"), whatever its kind, with one message, and
  // reads what comes.
  absl::Status CallAny(const std::string& method, const std::string& token,
                       const std::string& message = "") {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    if (!token.empty()) AddToken(context, token);
    auto call = stub.PrepareCall(&context, method, &queue);
    const grpc::Slice slice(message);
    const grpc::ByteBuffer bytes(&slice, 1);
    grpc::ByteBuffer answer;
    grpc::Status status;
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(&tag);
    queue.Next(&tag, &ok);
    call->WriteLast(bytes, grpc::WriteOptions(), &tag);
    queue.Next(&tag, &ok);
    do {
      call->Read(&answer, &tag);
      queue.Next(&tag, &ok);
    } while (ok);
    call->Finish(&status, &tag);
    queue.Next(&tag, &ok);
    return FromGrpc(status);
  }

  // A context that carries the token.
  struct Context : grpc::ClientContext {
    Context() { AddToken(*this, kToken); }
  };

  // One unary call; the response goes to `response`.
  template <typename Method, typename Request, typename Response>
  absl::Status Call(Method method, const Request& request, Response& response) {
    Context context;
    return FromGrpc((stub_.get()->*method)(&context, request, &response));
  }

  testing::TempDir dir_;
  RealClock clock_;
  MetricFamilies families_{metric::kControllerDroppedTotal};
  FakeEngine engine_;
  RateLimit limit_;          // none, unless the test's constructor sets one
  StreamPatience patience_;  // likewise
  std::unique_ptr<CallGate> gate_;
  std::unique_ptr<MetricsIngest> ingest_;
  std::unique_ptr<JobService> jobs_;
  ExecSessions exec_sessions_;
  std::unique_ptr<ExecService> execs_;
  std::unique_ptr<WorkerService> workers_;
  std::unique_ptr<AccessService> access_service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> stub_;
  std::unique_ptr<v1::WorkerService::Stub> worker_stub_;
};

}  // namespace muster::controller
