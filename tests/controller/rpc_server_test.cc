// The bounds of an open gRPC port, each by what a caller beyond it hears.
#include "controller/rpc_server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;

constexpr int kReceiveBytes = 64 << 10;

// Answers every version and keeps every watch open until the caller goes.
class PatientService final : public v1::JobService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetVersion(grpc::CallbackServerContext* context,
                                       const v1::GetVersionRequest*,
                                       v1::GetVersionResponse*) override {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context, const v1::SubmitRequest*,
                                   v1::SubmitResponse*) override {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(grpc::CallbackServerContext*,
                                                           const v1::WatchJobRequest*) override {
    class Watch final : public grpc::ServerWriteReactor<v1::WatchJobResponse> {
     public:
      Watch() { StartSendInitialMetadata(); }
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }
    };
    return new Watch();
  }
};

class RpcServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = RpcServer::Start({"test", "127.0.0.1:0", kReceiveBytes, 16 << 20}, {&service_});
    ASSERT_OK(server);
    server_ = *std::move(server);
    stub_ = v1::JobService::NewStub(MakeChannel({.address = server_->address()}));
  }

  PatientService service_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<v1::JobService::Stub> stub_;
};

TEST_F(RpcServerTest, MetadataBeyondItsBoundIsRefused) {
  for (const auto& [bytes, code] : {std::pair(1 << 10, absl::StatusCode::kOk),
                                    std::pair(16 << 10, absl::StatusCode::kResourceExhausted)}) {
    grpc::ClientContext context;
    context.AddMetadata("x-long", std::string(bytes, 'x'));
    v1::GetVersionResponse response;
    EXPECT_THAT(FromGrpc(stub_->GetVersion(&context, {}, &response)), StatusIs(code)) << bytes;
  }
}

TEST_F(RpcServerTest, AMessageBeyondItsBoundIsRefused) {
  for (const auto& [bytes, code] :
       {std::pair(kReceiveBytes - 100, absl::StatusCode::kOk),
        std::pair(kReceiveBytes + 1, absl::StatusCode::kResourceExhausted)}) {
    grpc::ClientContext context;
    v1::SubmitRequest request;
    request.set_owner(std::string(bytes, 'x'));
    v1::SubmitResponse response;
    EXPECT_THAT(FromGrpc(stub_->Submit(&context, request, &response)), StatusIs(code)) << bytes;
  }
}

TEST_F(RpcServerTest, OneConnectionHasOnlySoManyStreams) {
  constexpr int kMaxStreams = 128;
  struct Watch {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>> reader;
  };
  std::vector<std::unique_ptr<Watch>> watches;
  for (int i = 0; i < kMaxStreams; ++i) {
    watches.push_back(std::make_unique<Watch>());
    watches.back()->reader = stub_->WatchJob(&watches.back()->context, {});
    watches.back()->reader->WaitForInitialMetadata();  // the server has it
  }
  // The next call waits in the client until one of them ends, or its own deadline.
  grpc::ClientContext late;
  late.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  v1::GetVersionResponse response;
  EXPECT_THAT(FromGrpc(stub_->GetVersion(&late, {}, &response)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  watches.back()->context.TryCancel();
  EXPECT_THAT(FromGrpc(watches.back()->reader->Finish()), StatusIs(absl::StatusCode::kCancelled));
  grpc::ClientContext next;
  EXPECT_OK(FromGrpc(stub_->GetVersion(&next, {}, &response)));
  for (const auto& watch : watches) watch->context.TryCancel();
}

}  // namespace
}  // namespace muster::controller
