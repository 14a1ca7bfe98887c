// Calls to gRPC's own server.
#include "common/call/call.h"

#include <grpcpp/server.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "muster/v1/upload_service.grpc.pb.h"
#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

constexpr Method<v1::GetVersionRequest, v1::GetVersionResponse> kGetVersion{
    "/muster.v1.JobService/GetVersion"};
constexpr Method<v1::ListJobsRequest, v1::ListJobsResponse> kListJobs{
    "/muster.v1.JobService/ListJobs"};
constexpr Method<v1::StreamEventsRequest, v1::StreamEventsResponse> kStreamEvents{
    "/muster.v1.JobService/StreamEvents"};
constexpr Method<v1::WatchJobRequest, v1::WatchJobResponse> kWatchJob{
    "/muster.v1.JobService/WatchJob"};
constexpr Method<v1::UploadRequest, v1::UploadResponse> kUpload{"/muster.v1.UploadService/Upload"};

constexpr int kEvents = 5'000;
constexpr size_t kBigBytes = 5 << 20;

class Jobs final : public v1::JobService::Service {
 public:
  // Its answer is large.
  grpc::Status GetVersion(grpc::ServerContext* context, const v1::GetVersionRequest*,
                          v1::GetVersionResponse* response) override {
    deadline = absl::FromChrono(context->deadline());
    response->set_version(std::string(kBigBytes, 'v'));
    return ToGrpc(CheckToken(*context, "s3cret"));
  }
  // Fails with the longest message that ToGrpc lets through.
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                        v1::ListJobsResponse*) override {
    return ToGrpc(absl::InvalidArgumentError(std::string(100'000, '\n')));
  }
  // Many small messages.
  grpc::Status StreamEvents(grpc::ServerContext*, const v1::StreamEventsRequest*,
                            grpc::ServerWriter<v1::StreamEventsResponse>* stream) override {
    v1::StreamEventsResponse response;
    v1::JobEvent* event = response.add_events();
    for (int i = 0; i < kEvents; ++i) {
      event->set_sequence(i);
      stream->Write(response);
    }
    return grpc::Status(grpc::StatusCode::ABORTED, "that was all: 100 %, \xC3\xA9");
  }
  // One message, and then silence until the client leaves.
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::WatchJobResponse>* stream) override {
    stream->Write({});
    while (!context->IsCancelled()) std::this_thread::yield();
    left.Notify();
    return grpc::Status::OK;
  }

  absl::Time deadline;
  absl::Notification left;
};

// Says whether all pieces were as they should be; refuses a folder named "refused" at once.
class Uploads final : public v1::UploadService::Service {
  grpc::Status Upload(grpc::ServerContext*, grpc::ServerReader<v1::UploadRequest>* stream,
                      v1::UploadResponse* response) override {
    v1::UploadRequest piece;
    uint64_t bytes = 0;
    while (stream->Read(&piece)) {
      if (piece.sha256() == "refused") return ToGrpc(absl::InvalidArgumentError("not this one"));
      bytes += piece.data().size();
    }
    response->set_already_existed(bytes == kBigBytes);
    return grpc::Status::OK;
  }
};

class CallTest : public ::testing::Test {
 protected:
  void Listen(const std::string& address) {
    grpc::ServerBuilder builder;
    AllowClientPings(builder);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&jobs_);
    builder.RegisterService(&uploads_);
    server_ = builder.BuildAndStart();
  }
  void SetUp() override { Listen("127.0.0.1:0"); }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown();
  }

  CallOptions Options() const {
    return {.address = absl::StrCat("127.0.0.1:", port_),
            .token = "s3cret",
            .timeout = absl::Seconds(60)};
  }
  CallEnd GetVersion(CallOptions options) {
    return CallOnce(kGetVersion, v1::GetVersionRequest(), version_, std::move(options));
  }
  CallEnd Upload(const std::string& name) {
    Call call(kUpload.path, Options());
    v1::UploadRequest piece;
    piece.set_sha256(name);
    for (size_t sent = 0; sent < kBigBytes; sent += piece.data().size()) {
      piece.set_data(std::string(256 << 10, 'x'));
      if (!call.Write(piece)) break;
      piece.clear_sha256();
    }
    call.EndWrites();
    return FinishWith(call, uploaded_);
  }

  int port_ = 0;
  Jobs jobs_;
  Uploads uploads_;
  std::unique_ptr<grpc::Server> server_;
  v1::GetVersionResponse version_;
  v1::UploadResponse uploaded_;
};

TEST_F(CallTest, AnAnswerComesWhole) {
  EXPECT_OK(GetVersion(Options()).status);
  EXPECT_EQ(version_.version(), std::string(kBigBytes, 'v'));
}

TEST_F(CallTest, TheServerLearnsTheDeadline) {
  const absl::Time before = absl::Now();
  EXPECT_OK(GetVersion(Options()).status);
  EXPECT_GT(jobs_.deadline, before + absl::Seconds(30));
  EXPECT_LT(jobs_.deadline, absl::Now() + absl::Seconds(61));
  CallOptions forever = Options();
  forever.timeout = absl::InfiniteDuration();
  EXPECT_OK(GetVersion(forever).status);
  EXPECT_GT(jobs_.deadline, before + absl::Hours(24 * 365));
}

TEST_F(CallTest, AWrongTokenIsThePeersRefusal) {
  for (const char* token : {"", "s3cre", "s3cret2"}) {
    CallOptions options = Options();
    options.token = token;
    const CallEnd end = GetVersion(options);
    EXPECT_THAT(end.status, StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("token")));
    EXPECT_TRUE(end.by_peer);
  }
}

TEST_F(CallTest, AMessageAboveTheLimitFailsItsCall) {
  CallOptions options = Options();
  options.max_receive_bytes = kBigBytes;
  const CallEnd end = GetVersion(options);
  EXPECT_THAT(end.status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("limit")));
  EXPECT_FALSE(end.by_peer);
}

TEST_F(CallTest, TheLongestStatusMessageArrivesWhole) {
  v1::ListJobsResponse response;
  const CallEnd end = CallOnce(kListJobs, v1::ListJobsRequest(), response, Options());
  EXPECT_THAT(end.status, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(end.status.message().size(), kMaxStatusMessageBytes);
  EXPECT_EQ(end.status.message().front(), '\n');
}

TEST_F(CallTest, AStreamComesInOrderAndEndsWithItsStatus) {
  ReadCall call(kStreamEvents, v1::StreamEventsRequest(), Options());
  v1::StreamEventsResponse response;
  for (int i = 0; i < kEvents; ++i) {
    ASSERT_TRUE(call.Read(response));
    ASSERT_EQ(response.events(0).sequence(), static_cast<uint64_t>(i));
  }
  EXPECT_FALSE(call.Read(response));
  EXPECT_THAT(call.Finish().status,
              StatusIs(absl::StatusCode::kAborted, "that was all: 100 %, \xC3\xA9"));
}

TEST_F(CallTest, FinishDropsWhatWasNotRead) {
  ReadCall call(kStreamEvents, v1::StreamEventsRequest(), Options());
  v1::StreamEventsResponse response;
  ASSERT_TRUE(call.Read(response));
  EXPECT_THAT(call.Finish().status, StatusIs(absl::StatusCode::kAborted));
}

TEST_F(CallTest, CancelWakesAReaderAndTheServerLearnsIt) {
  {
    ReadCall call(kWatchJob, v1::WatchJobRequest(), Options());
    v1::WatchJobResponse response;
    ASSERT_TRUE(call.Read(response));
    std::thread other([&] { call.Cancel(); });
    EXPECT_FALSE(call.Read(response));
    EXPECT_THAT(call.Finish().status, StatusIs(absl::StatusCode::kCancelled));
    other.join();
  }
  jobs_.left.WaitForNotification();
}

TEST_F(CallTest, ACallThatWasCancelledBeforeItBeganConnectsToNobody) {
  ReadCall call(kWatchJob, v1::WatchJobRequest(), Options());
  call.Cancel();
  v1::WatchJobResponse response;
  EXPECT_FALSE(call.Read(response));
  EXPECT_THAT(call.Finish().status, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_FALSE(jobs_.left.HasBeenNotified());
}

TEST_F(CallTest, TheDeadlineEndsAStream) {
  CallOptions options = Options();
  options.timeout = absl::Milliseconds(300);
  ReadCall call(kWatchJob, v1::WatchJobRequest(), options);
  v1::WatchJobResponse response;
  while (call.Read(response)) {
  }
  EXPECT_THAT(call.Finish().status, StatusIs(absl::StatusCode::kDeadlineExceeded));
  jobs_.left.WaitForNotification();
}

TEST_F(CallTest, PiecesArriveInOrderThroughTheServersWindow) {
  EXPECT_OK(Upload("wanted").status);
  EXPECT_TRUE(uploaded_.already_existed());
}

TEST_F(CallTest, AServerThatRefusesBeforeTheEndIsHeard) {
  const CallEnd end = Upload("refused");
  EXPECT_THAT(end.status, StatusIs(absl::StatusCode::kInvalidArgument, "not this one"));
  EXPECT_TRUE(end.by_peer);
}

TEST_F(CallTest, AMethodThatIsNotThereIsUnimplemented) {
  constexpr Method<v1::GetVersionRequest, v1::GetVersionResponse> no_such{
      "/muster.v1.JobService/GetWeather"};
  const CallEnd end = CallOnce(no_such, v1::GetVersionRequest(), version_, Options());
  EXPECT_THAT(end.status, StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_TRUE(end.by_peer);
}

TEST_F(CallTest, NobodyListeningIsUnavailable) {
  server_->Shutdown();
  server_.reset();
  const CallEnd end = GetVersion(Options());
  EXPECT_THAT(end.status, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(end.by_peer);
  EXPECT_EQ(end.connected, absl::ZeroDuration());
}

TEST_F(CallTest, NamesAndIpv6AddressesAreFound) {
  CallOptions options = Options();
  options.address = absl::StrCat("localhost:", port_);
  EXPECT_OK(GetVersion(options).status);
  server_->Shutdown();
  Listen("[::1]:0");
  if (port_ == 0) GTEST_SKIP() << "no IPv6 here";
  options.address = absl::StrCat("[::1]:", port_);
  EXPECT_OK(GetVersion(options).status);
}

TEST_F(CallTest, NamesThatNobodyHasAreUnavailable) {
  CallOptions options = Options();
  options.address = "no-such-host.invalid:7070";
  EXPECT_THAT(GetVersion(options).status, StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(CallTest, AnAddressWithoutPortIsNoAddress) {
  for (const char* address : {"", "localhost", "localhost:", ":7070"}) {
    CallOptions options = Options();
    options.address = address;
    EXPECT_THAT(GetVersion(options).status, StatusIs(absl::StatusCode::kInvalidArgument))
        << address;
  }
}

}  // namespace
}  // namespace muster
