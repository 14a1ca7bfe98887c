#include "common/rpc/channel.h"

#include <grpcpp/server.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "tests/support/raw_peer.h"
#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using testing::StatusIs;

// Answers GetVersion to who has the token, and a status with the longest message that ToGrpc lets
// through to ListJobs.
class Service final : public v1::JobService::Service {
 public:
  grpc::Status GetVersion(grpc::ServerContext* context, const v1::GetVersionRequest*,
                          v1::GetVersionResponse* response) override {
    response->set_version(std::string(1000, 'v'));
    return ToGrpc(CheckToken(*context, "s3cret"));
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                        v1::ListJobsResponse*) override {
    return ToGrpc(absl::InvalidArgumentError(std::string(100'000, '\n')));
  }
};

class ChannelTest : public ::testing::Test {
 protected:
  ChannelTest() { Listen("127.0.0.1:0"); }

  void Listen(const std::string& at) {
    grpc::ServerBuilder builder;
    AllowClientPings(builder);
    builder.AddListeningPort(at, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }

  absl::Status GetVersion(const ChannelOptions& options, const std::string& token) {
    const auto stub = v1::JobService::NewStub(MakeChannel(options));
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
    AddToken(context, token);
    v1::GetVersionResponse response;
    return FromGrpc(stub->GetVersion(&context, {}, &response));
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  int port_ = 0;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ChannelTest, CallsWithTheTokenPass) {
  EXPECT_OK(GetVersion({.address = address()}, "s3cret"));
}

TEST_F(ChannelTest, CallsWithoutOrWithAnotherTokenAreUnauthenticated) {
  for (const char* token : {"", "s3cre", "s3cret2", "S3cret"}) {
    EXPECT_THAT(GetVersion({.address = address()}, token),
                StatusIs(absl::StatusCode::kUnauthenticated, ::testing::HasSubstr("MUSTER_TOKEN")));
  }
}

TEST_F(ChannelTest, AMessageAboveTheLimitFailsItsCall) {
  EXPECT_THAT(GetVersion({.address = address(), .max_receive_bytes = 100}, "s3cret"),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(ChannelTest, TheLongestStatusMessageArrivesWhole) {
  const auto stub = v1::JobService::NewStub(MakeChannel({.address = address()}));
  grpc::ClientContext context;
  v1::ListJobsResponse response;
  const absl::Status status = FromGrpc(stub->ListJobs(&context, {}, &response));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().size(), kMaxStatusMessageBytes);
}

TEST_F(ChannelTest, NobodyListeningIsUnavailable) {
  server_->Shutdown();
  server_.reset();
  EXPECT_THAT(GetVersion({.address = address()}, "s3cret"),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(ChannelTest, NamesAndIpv6AddressesAreFound) {
  EXPECT_OK(GetVersion({.address = absl::StrCat("localhost:", port_)}, "s3cret"));
  server_->Shutdown();
  Listen("[::1]:0");
  if (port_ == 0) GTEST_SKIP() << "no IPv6 here";
  EXPECT_OK(GetVersion({.address = absl::StrCat("[::1]:", port_)}, "s3cret"));
}

TEST_F(ChannelTest, ProxiesOfTheEnvironmentAreIgnored) {
  ::setenv("http_proxy", "http://127.0.0.1:1", /*overwrite=*/1);
  const absl::Status status = GetVersion({.address = address()}, "s3cret");
  ::unsetenv("http_proxy");
  EXPECT_OK(status);
}

TEST(SilentServerTest, IsPingedAndGivenUp) {
  testing::RawPeer peer([](testing::RawPeer::Connection& connection) {
    connection.Send(testing::SettingsFrame());
    connection.AwaitHangUp();
  });
  const auto stub = v1::JobService::NewStub(MakeChannel({.address = peer.address(),
                                                         .ping_interval = absl::Milliseconds(100),
                                                         .ping_timeout = absl::Milliseconds(100)}));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  v1::GetVersionResponse response;
  EXPECT_THAT(FromGrpc(stub->GetVersion(&context, {}, &response)),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace muster
