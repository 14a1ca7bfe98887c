// Bounds of what callers may ask at once, each by its exact code; docs/reliability.md lists them.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>

#include "common/base/version.h"
#include "controller/api/streams/stream_pump.h"
#include "tests/controller/api/api_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

class LimitsTest : public ApiFixture {
 protected:
  LimitsTest() { limit_ = {.per_second = 0.001, .burst = 2}; }
  absl::Status GetVersion(grpc::ClientContext& context) {
    v1::GetVersionResponse response;
    return FromGrpc(stub_->GetVersion(&context, {}, &response));
  }
};

TEST_F(LimitsTest, ACallerThatAsksTooOftenIsToldWhenToComeAgain) {
  for (int i = 0; i < 2; ++i) {
    Context context;
    EXPECT_OK(GetVersion(context));
  }
  Context context;
  EXPECT_THAT(GetVersion(context),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("--calls-per-second")));
  const auto& trailing = context.GetServerTrailingMetadata();
  const auto hint = trailing.find(kRetryAfterKey);
  ASSERT_NE(hint, trailing.end());
  EXPECT_GT(std::stoll(std::string(hint->second.data(), hint->second.size())), 900'000);
}

TEST_F(LimitsTest, GuessingTokensDoesNotEatTheBudgetOfThoseWhoHaveOne) {
  for (int i = 0; i < 2; ++i) {
    grpc::ClientContext context;
    EXPECT_THAT(GetVersion(context), StatusIs(absl::StatusCode::kUnauthenticated));
  }
  grpc::ClientContext guess;
  EXPECT_THAT(GetVersion(guess), StatusIs(absl::StatusCode::kResourceExhausted));
  Context context;
  EXPECT_OK(GetVersion(context));
}

TEST_F(LimitsTest, TheStreamsOfAgentsAreBounded) {
  struct Call {
    Context context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::ControllerMessage>> stream;
  };
  CallGate gate(kToken, families_, clock_);  // that of the fixture would be empty first
  WorkerService service(engine_, *ingest_, gate, exec_sessions_, 2);
  grpc::ServerBuilder builder;
  AllowClientPings(builder);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  auto stub =
      v1::WorkerService::NewStub(MakeChannel({.address = "127.0.0.1:" + std::to_string(port)}));
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 2; ++i) {
    calls.push_back(std::make_unique<Call>());
    calls.back()->stream = stub->Control(&calls.back()->context);
    v1::WorkerMessage hello;
    hello.mutable_hello()->set_protocol_version(kProtocolVersion);
    hello.mutable_hello()->set_worker_name("w" + std::to_string(i));
    hello.mutable_hello()->set_incarnation(std::string(16, 'i'));
    hello.mutable_hello()->set_pool("default");
    ASSERT_TRUE(calls.back()->stream->Write(hello));
    v1::ControllerMessage welcome;
    ASSERT_TRUE(calls.back()->stream->Read(&welcome)) << "this one stands";
  }
  Call third;
  third.stream = stub->Control(&third.context);
  EXPECT_THAT(FromGrpc(third.stream->Finish()), StatusIs(absl::StatusCode::kResourceExhausted));
  service.Stop();
  for (const auto& call : calls) {
    EXPECT_THAT(FromGrpc(call->stream->Finish()), StatusIs(absl::StatusCode::kUnavailable));
  }
  server->Shutdown();
}

TEST_F(LimitsTest, ACertificateThatWasRevokedSinceTheHeadersWereCheckedOpensNoStream) {
  CallGate gate(kToken, families_, clock_);
  std::atomic<int> asked = 0;
  WorkerService service(engine_, *ingest_, gate, exec_sessions_, WorkerService::kMaxStreams,
                        [&](absl::string_view) {
                          ++asked;
                          return absl::PermissionDeniedError("revoked");
                        });
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  auto stub =
      v1::WorkerService::NewStub(MakeChannel({.address = "127.0.0.1:" + std::to_string(port)}));
  Context control, bulk;
  for (Context* context : {&control, &bulk}) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  }
  EXPECT_THAT(FromGrpc(stub->Control(&control)->Finish()),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("revoked")));
  EXPECT_THAT(FromGrpc(stub->Bulk(&bulk)->Finish()),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("revoked")));
  EXPECT_EQ(asked, 2);
  service.Stop();
  server->Shutdown();
}

TEST(PeerTest, TheHostOfAPeerIsItsAddressWithoutThePort) {
  EXPECT_EQ(HostOfPeer("ipv4:10.0.0.1:40312"), "ipv4:10.0.0.1");
  EXPECT_EQ(HostOfPeer("ipv6:%5B::1%5D:40312"), "ipv6:%5B::1%5D");
  EXPECT_EQ(HostOfPeer("unix:/run/muster"), "unix:/run/muster");
  EXPECT_EQ(HostOfPeer(""), "");
}

// Waits for ever, and keeps how it was sent away.
class Waiter final : public Pumped {
 public:
  bool Turn() override { return true; }
  void Abort(const absl::Status& why) override { status = why; }
  absl::Status status;
};

TEST(StreamPumpTest, TooManyWaitersAreSentAwayAtOnce) {
  RealClock clock;
  StreamPump pump(clock, 8);
  std::vector<std::shared_ptr<Waiter>> waiters;
  const auto add = [&](const std::string& caller) {
    waiters.push_back(std::make_shared<Waiter>());
    pump.Add(waiters.back(), caller);
    return waiters.back()->status;
  };
  for (const std::string caller : {"anna", "bob", "carl", "dora"}) {
    EXPECT_OK(add(caller));
    EXPECT_OK(add(caller));
    if (caller == "anna") {
      EXPECT_THAT(add(caller),
                  StatusIs(absl::StatusCode::kResourceExhausted,
                           ::testing::HasSubstr("2 watches and waits of yours are open already, of "
                                                "8 in all: end some of them")));
    }
  }
  EXPECT_THAT(add("eve"), StatusIs(absl::StatusCode::kResourceExhausted,
                                   ::testing::HasSubstr("8 watches and waits are open already")));
  pump.Stop();
  EXPECT_THAT(waiters.front()->status, StatusIs(absl::StatusCode::kUnavailable));
}

TEST(StreamPumpTest, WhatHasEndedIsNoLongerOfItsCallersShare) {
  class Once final : public Pumped {
   public:
    bool Turn() override { return false; }
    void Abort(const absl::Status& why) override { refused = !why.ok(); }
    std::atomic<bool> refused = false;
  };
  RealClock clock;
  StreamPump pump(clock, 4);
  for (int i = 0; i < 20; ++i) {
    bool taken = false;
    while (!taken) {
      const auto once = std::make_shared<Once>();
      pump.Add(once, "anna");
      taken = !once->refused;
    }
  }
}

}  // namespace
}  // namespace muster::controller
