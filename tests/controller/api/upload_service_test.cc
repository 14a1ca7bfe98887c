// Uploads over real gRPC, from well-behaved clients and others.
#include "controller/api/upload_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <set>

#include "absl/synchronization/notification.h"
#include "common/metrics/metric_names.h"
#include "common/os/sha256.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "common/upload/limits.h"
#include "grpcpp/grpcpp.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::muster::testing::WaitUntil;

constexpr char kToken[] = "secret-of-this-test";

class UploadServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store =
        UploadStore::Open({.folder = dir_ / "uploads",
                           .max_bytes = 200 << 20,
                           .referred = [] { return std::map<std::string, absl::Duration>(); }},
                          PosixFileSystem(), clock_);
    ASSERT_OK(store);
    store_ = *std::move(store);
    thread_ = std::make_unique<UploadThread>(*store_, clock_, patience_);
    for (const auto side : {UploadService::Side::kPeople, UploadService::Side::kAgents}) {
      services_.push_back(std::make_unique<UploadService>(*thread_, gate_, side));
      grpc::ServerBuilder builder;
      AllowClientPings(builder);
      int port = 0;
      builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
      builder.RegisterService(services_.back().get());
      servers_.push_back(builder.BuildAndStart());
      ASSERT_NE(servers_.back(), nullptr);
      addresses_.push_back("127.0.0.1:" + std::to_string(port));
      stubs_.push_back(v1::UploadService::NewStub(MakeChannel({.address = addresses_.back()})));
    }
  }
  void TearDown() override {
    for (const auto& server : servers_) {
      server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
      server->Wait();
    }
  }

  v1::UploadService::Stub& people() { return *stubs_[0]; }
  v1::UploadService::Stub& agents() { return *stubs_[1]; }
  // A connection of its own, which takes up little for a stream that nobody reads.
  std::unique_ptr<v1::UploadService::Stub> AgentsOfASmallWindow() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return v1::UploadService::NewStub(
        grpc::CreateCustomChannel(addresses_[1], grpc::InsecureChannelCredentials(), arguments));
  }

  // Announces `sha256` and `size`, and sends these pieces.
  absl::Status Upload(const std::string& sha256, uint64_t size,
                      const std::vector<std::string>& pieces, bool* existed = nullptr) {
    grpc::ClientContext context;
    AddToken(context, kToken);
    v1::UploadResponse response;
    const auto stream = people().Upload(&context, &response);
    v1::UploadRequest request;
    request.set_sha256(sha256);
    request.set_bytes(size);
    for (const std::string& piece : pieces) {
      request.set_data(piece);
      if (!stream->Write(request)) break;
      request.Clear();
    }
    stream->WritesDone();
    const grpc::Status status = stream->Finish();
    if (existed != nullptr) *existed = response.already_existed();
    return FromGrpc(status);
  }
  absl::StatusOr<std::string> Fetch(v1::UploadService::Stub& stub, const std::string& sha256) {
    grpc::ClientContext context;
    AddToken(context, kToken);
    v1::FetchUploadRequest request;
    request.set_sha256(sha256);
    const auto stream = stub.Fetch(&context, request);
    std::string bytes;
    v1::FetchUploadResponse piece;
    while (stream->Read(&piece)) bytes += piece.data();
    const grpc::Status status = stream->Finish();
    if (!status.ok()) return FromGrpc(status);
    return bytes;
  }
  bool Find(const std::string& sha256) {
    grpc::ClientContext context;
    AddToken(context, kToken);
    v1::FindUploadRequest request;
    request.set_sha256(sha256);
    v1::FindUploadResponse response;
    EXPECT_TRUE(people().Find(&context, request, &response).ok());
    return response.found();
  }

  TempDir dir_;
  RealClock clock_;
  UploadPatience patience_;
  MetricFamilies families_{metric::kControllerDroppedTotal};
  CallGate gate_{kToken, families_, clock_};
  std::unique_ptr<UploadStore> store_;
  std::unique_ptr<UploadThread> thread_;
  std::vector<std::unique_ptr<UploadService>> services_;
  std::vector<std::unique_ptr<grpc::Server>> servers_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<v1::UploadService::Stub>> stubs_;
};

TEST_F(UploadServiceTest, WhatPeopleSendAgentsGet) {
  const std::string bytes = std::string(UploadStore::kPieceBytes, 'a') + "the rest";
  EXPECT_FALSE(Find(Sha256Hex(bytes)));
  bool existed = true;
  ASSERT_OK(Upload(Sha256Hex(bytes), bytes.size(),
                   {bytes.substr(0, 100'000), bytes.substr(100'000)}, &existed));
  EXPECT_FALSE(existed);
  EXPECT_TRUE(Find(Sha256Hex(bytes)));
  ASSERT_OK_AND_ASSIGN(const std::string fetched, Fetch(agents(), Sha256Hex(bytes)));
  EXPECT_EQ(fetched, bytes);
  ASSERT_OK(Upload(Sha256Hex(bytes), bytes.size(), {""}, &existed));
  EXPECT_TRUE(existed) << "nothing is sent twice";
}

TEST_F(UploadServiceTest, WhatIsNotWhatItSaysIsRefused) {
  const auto bad = StatusIs(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Upload(Sha256Hex("abc"), 3, {"abd"}), bad);
  EXPECT_THAT(Upload(Sha256Hex("abc"), 3, {"ab"}), bad) << "truncated";
  EXPECT_THAT(Upload(Sha256Hex("abc"), 2, {"ab", "c"}), bad) << "longer than announced";
  EXPECT_THAT(Upload(Sha256Hex("abc"), kMaxUploadBytes + 1, {"abc"}), bad);
  EXPECT_THAT(Upload("../../etc/passwd", 3, {"abc"}), bad);
  EXPECT_THAT(Upload("", 0, {}), bad) << "no message at all";
  EXPECT_THAT(Upload(Sha256Hex("abc"), 3 << 20, {std::string(2 << 20, 'x')}), bad)
      << "a piece that is too large";
  EXPECT_FALSE(Find(Sha256Hex("abc")));
  EXPECT_EQ(store_->total_bytes(), 0u);
  // What was begun goes when gRPC has let go of the call, a moment after its answer.
  EXPECT_TRUE(WaitUntil(absl::Minutes(1),
                        [&] { return PosixFileSystem().List(dir_ / "uploads").value().empty(); }));
}

TEST_F(UploadServiceTest, AClientThatGoesAwayLeavesNothing) {
  {
    grpc::ClientContext context;
    AddToken(context, kToken);
    v1::UploadResponse response;
    const auto stream = people().Upload(&context, &response);
    v1::UploadRequest request;
    request.set_sha256(Sha256Hex("abc"));
    request.set_bytes(3);
    request.set_data("ab");
    ASSERT_TRUE(stream->Write(request));
    context.TryCancel();
    EXPECT_FALSE(stream->Finish().ok());
  }
  // The same again, whole: an upload that was cut off is in nobody's way.
  ASSERT_OK(Upload(Sha256Hex("abc"), 3, {"abc"}));
}

// Else one worker's key could take the controller's memory.
TEST_F(UploadServiceTest, AnAgentHasABoundedNumberOfFetchesUnderWay) {
  const std::string bytes(1 << 20, 'x');
  ASSERT_OK(Upload(Sha256Hex(bytes), bytes.size(), {bytes}));
  const auto stub = AgentsOfASmallWindow();
  struct Unread {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::FetchUploadResponse>> stream;
  };
  std::vector<std::unique_ptr<Unread>> unread;
  v1::FetchUploadRequest request;
  request.set_sha256(Sha256Hex(bytes));
  for (size_t i = 0; i < UploadThread::kMostFetches; ++i) {
    unread.push_back(std::make_unique<Unread>());
    AddToken(unread.back()->context, kToken);
    unread.back()->stream = stub->Fetch(&unread.back()->context, request);
    v1::FetchUploadResponse piece;
    ASSERT_TRUE(unread.back()->stream->Read(&piece));
  }
  EXPECT_THAT(Fetch(agents(), Sha256Hex(bytes)),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       ::testing::HasSubstr("32 of this agent's are under way")));
  for (const auto& one : unread) one->context.TryCancel();
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return Fetch(agents(), Sha256Hex(bytes)).ok(); }));
}

class SlowUploadTest : public UploadServiceTest {
 protected:
  SlowUploadTest() { patience_ = {.piece = absl::Seconds(1), .whole = absl::Seconds(4)}; }

  // One that announces itself, sends what it is told to, and goes on with nothing more.
  struct Slow {
    grpc::ClientContext context;
    v1::UploadResponse response;
    std::unique_ptr<grpc::ClientWriter<v1::UploadRequest>> stream;
  };
  std::unique_ptr<Slow> Begin(const std::string& sha256, uint64_t bytes, const std::string& data) {
    auto slow = std::make_unique<Slow>();
    AddToken(slow->context, kToken);
    slow->stream = people().Upload(&slow->context, &slow->response);
    v1::UploadRequest request;
    request.set_sha256(sha256);
    request.set_bytes(bytes);
    request.set_data(data);
    EXPECT_TRUE(slow->stream->Write(request));
    return slow;
  }
};

// All places stayed taken for as long as their clients were connected.
TEST_F(SlowUploadTest, SilentOnesAreEndedAndTheirPlacesAreOthersAgain) {
  // One that finds no place would be refused with RESOURCE_EXHAUSTED.
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<Slow>> silent;
    for (size_t i = 0; i < thread_->shares().share(); ++i) {
      silent.push_back(Begin(Sha256Hex(std::to_string(i)), 3, "a"));
    }
    // Calls are taken up in any order.
    ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] {
      return thread_->store().under_way() == thread_->shares().share();
    }));
    EXPECT_THAT(Upload(Sha256Hex("abcd"), 4, {"abcd"}),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         ::testing::HasSubstr("4 of yours are under way, of 16 in all")));
    for (const auto& slow : silent) {
      EXPECT_THAT(FromGrpc(slow->stream->Finish()),
                  StatusIs(absl::StatusCode::kDeadlineExceeded,
                           ::testing::HasSubstr("nothing came for 1s")));
    }
  }
  ASSERT_OK(Upload(Sha256Hex("abc"), 3, {"abc"}));
}

TEST_F(SlowUploadTest, OneThatSaysNothingAtAllIsEnded) {
  grpc::ClientContext context;
  AddToken(context, kToken);
  v1::UploadResponse response;
  const auto stream = people().Upload(&context, &response);
  EXPECT_THAT(FromGrpc(stream->Finish()), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(SlowUploadTest, OneThatTricklesIsEndedWhenItsWholeTimeIsOver) {
  const auto slow = Begin(Sha256Hex("abc"), 1 << 20, "a");
  v1::UploadRequest more;
  more.set_data("b");
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return !slow->stream->Write(more); }));
  EXPECT_THAT(
      FromGrpc(slow->stream->Finish()),
      StatusIs(absl::StatusCode::kDeadlineExceeded, ::testing::HasSubstr("not done after 4s")));
}

TEST_F(SlowUploadTest, AnAgentThatDoesNotReadWhatItFetchesIsGivenUp) {
  // More than a connection takes up for a stream that nobody reads.
  const std::string bytes(1 << 20, 'x');
  ASSERT_OK(Upload(Sha256Hex(bytes), bytes.size(), {bytes}));
  const auto stub = AgentsOfASmallWindow();
  grpc::ClientContext context;
  AddToken(context, kToken);
  v1::FetchUploadRequest request;
  request.set_sha256(Sha256Hex(bytes));
  const auto stream = stub->Fetch(&context, request);
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] {
    const std::string ended = "{code=\"CANCELLED\",method=\"FetchUpload\"} 1\n";
    const std::string text = prometheus::TextSerializer().Serialize(families_.Collect());
    return text.find(ended) != std::string::npos;
  }));
  v1::FetchUploadResponse piece;
  while (stream->Read(&piece)) {
  }
  EXPECT_FALSE(stream->Finish().ok());
  ASSERT_OK_AND_ASSIGN(const std::string fetched, Fetch(agents(), Sha256Hex(bytes)));
  EXPECT_EQ(fetched, bytes);
}

// The disk takes longer than a piece may; how long the whole may take is as usual.
class BusyDiskTest : public SlowUploadTest {
 protected:
  BusyDiskTest() { patience_.whole = UploadPatience().whole; }
};

// Its peers are not silent while the controller itself has no time for them.
TEST_F(BusyDiskTest, ADiskThatTakesLongEndsNoUploadAndNoFetch) {
  const std::string bytes(1 << 20, 'x');
  ASSERT_OK(Upload(Sha256Hex(bytes), bytes.size(), {bytes}));
  // More than a connection takes up at once: the second piece waits to be read.
  const auto stub = AgentsOfASmallWindow();
  grpc::ClientContext context;
  AddToken(context, kToken);
  v1::FetchUploadRequest request;
  request.set_sha256(Sha256Hex(bytes));
  const auto fetch = stub->Fetch(&context, request);
  v1::FetchUploadResponse piece;
  ASSERT_TRUE(fetch->Read(&piece));
  const auto upload = Begin(Sha256Hex("abc"), 3, "a");
  absl::Notification both_went_on;
  thread_->Enqueue([&] {
    // In vain if this comes before the thread has read the second piece: then that comes after
    // this.
    both_went_on.WaitForNotificationWithTimeout(absl::Seconds(2));
    absl::SleepFor(2 * patience_.piece);
  });
  v1::UploadRequest rest;
  rest.set_data("bc");
  EXPECT_TRUE(upload->stream->Write(rest));
  EXPECT_TRUE(upload->stream->WritesDone());
  std::string fetched = piece.data();
  EXPECT_TRUE(fetch->Read(&piece));
  fetched += piece.data();
  both_went_on.Notify();
  while (fetch->Read(&piece)) fetched += piece.data();
  EXPECT_OK(FromGrpc(fetch->Finish()));
  EXPECT_EQ(fetched, bytes);
  EXPECT_OK(FromGrpc(upload->stream->Finish()));
}

TEST_F(UploadServiceTest, EachSideHasItsCallsAndEveryCallNeedsTheToken) {
  ASSERT_OK(Upload(Sha256Hex("abc"), 3, {"abc"}));
  EXPECT_THAT(Fetch(agents(), Sha256Hex("other")), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Fetch(people(), Sha256Hex("abc")), StatusIs(absl::StatusCode::kUnimplemented));
  grpc::ClientContext context;
  v1::FindUploadRequest request;
  v1::FindUploadResponse response;
  EXPECT_EQ(people().Find(&context, request, &response).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  grpc::ClientContext upload_context;
  v1::UploadResponse uploaded;
  const auto stream = people().Upload(&upload_context, &uploaded);
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  grpc::ClientContext fetch_context;
  v1::FetchUploadRequest fetch;
  const auto reader = agents().Fetch(&fetch_context, fetch);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

}  // namespace
}  // namespace muster::controller
