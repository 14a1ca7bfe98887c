// The bounds of an open gRPC port, each by what a caller beyond it hears.
#include "controller/rpc/rpc_server.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/unique_fd.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::WaitUntil;

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
  void SetUp() override { Start(options_); }
  void Start(const RpcServerOptions& options) {
    auto server = RpcServer::Start(options, {&service_});
    ASSERT_OK(server);
    server_ = *std::move(server);
    stub_ = v1::JobService::NewStub(MakeChannel({.address = server_->address()}));
  }
  // A socket that is connected to the server; the server may hang up on it at once.
  UniqueFd Connect() const {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ConnectTo(fd.get());
    return fd;
  }
  void ConnectTo(int fd) const {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int port = 0;
    const std::string address = server_->address();
    ASSERT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    to.sin_port = htons(static_cast<uint16_t>(port));
    ASSERT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    // A server that is silent fails the test, not the whole program.
    const timeval patience = {.tv_sec = 60, .tv_usec = 0};
    ASSERT_EQ(::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
  }
  // Whether the server greets the connection; false: it has closed it.
  static bool IsGreeted(int fd) {
    char byte = 0;
    return ::recv(fd, &byte, 1, 0) == 1;
  }
  // Whether it still is when what was sent on it has been read.
  static bool IsOpen(int fd) {
    char bytes[4096];
    ssize_t got = 1;
    while (got > 0) got = ::recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    return got < 0 && errno == EAGAIN;
  }
  // This end as gRPC writes it at the other.
  static std::string PeerOf(int fd) {
    sockaddr_in own = {};
    socklen_t size = sizeof own;
    EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size), 0);
    return absl::StrCat("ipv4:127.0.0.1:", ntohs(own.sin_port));
  }
  // A call of the method of which only the headers are sent.
  absl::Status CallWithoutMessage(const std::string& method, const std::string& token) {
    grpc::GenericStub stub(MakeChannel({.address = server_->address()}));
    grpc::ClientContext context;
    if (!token.empty()) AddToken(context, token);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(3));
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(&context, method, &queue);
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(nullptr);
    queue.Next(&tag, &ok);
    grpc::ByteBuffer message;
    call->Read(&message, nullptr);
    queue.Next(&tag, &ok);
    grpc::Status status;
    call->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
    return FromGrpc(status);
  }

  // How a watch on which nothing is sent ends, by a client that pings so often and waits so long.
  absl::StatusCode EndOfIdleWatch(absl::Duration ping_interval, absl::Duration patience) {
    stub_ = v1::JobService::NewStub(
        MakeChannel({.address = server_->address(), .ping_interval = ping_interval}));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMicroseconds(patience));
    const auto reader = stub_->WatchJob(&context, {});
    v1::WatchJobResponse response;
    EXPECT_FALSE(reader->Read(&response));
    return FromGrpc(reader->Finish()).code();
  }
  // A client that says this and then nothing; it returns when the server has hung up.
  void AwaitHangUp(const std::string& words) {
    const UniqueFd fd = Connect();
    ASSERT_EQ(::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(words.size()));
    ssize_t count = 0;
    char bytes[4096];
    do {
      count = ::recv(fd.get(), bytes, sizeof bytes, 0);
      if (count > 0) heard_.append(bytes, static_cast<size_t>(count));
    } while (count > 0);
    EXPECT_TRUE(count == 0 || errno == ECONNRESET) << "it is still connected";
  }

  const RpcServerOptions options_ = {.name = "test",
                                     .listen = "127.0.0.1:0",
                                     .max_receive_bytes = kReceiveBytes,
                                     .memory_bytes = 16 << 20};
  std::string heard_;

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

TEST_F(RpcServerTest, AnIdleStreamOutlivesTheClientsPings) {
  RpcServerOptions options = options_;
  options.ping_interval = absl::Milliseconds(50);
  options.ping_timeout = absl::Seconds(30);
  Start(options);
  // gRPC sends one a second at most; who may not is closed at the third, as the next test shows.
  EXPECT_EQ(EndOfIdleWatch(options.ping_interval, absl::Seconds(5)),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(RpcServerTest, WhoPingsMoreThanTwiceAsOftenAsItMayIsClosed) {
  EXPECT_EQ(EndOfIdleWatch(absl::Milliseconds(50), absl::Minutes(1)),
            absl::StatusCode::kUnavailable);
}

TEST_F(RpcServerTest, WhoConnectsAndSaysNothingIsClosed) {
  RpcServerOptions options = options_;
  options.handshake_timeout = absl::Milliseconds(100);
  Start(options);
  AwaitHangUp("");
}

TEST_F(RpcServerTest, AClientThatNoLongerAnswersIsPingedAndClosed) {
  RpcServerOptions options = options_;
  options.ping_interval = options.ping_timeout = absl::Milliseconds(100);
  Start(options);
  // HTTP/2's greeting, with settings that change none.
  AwaitHangUp(std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") +
              std::string("\0\0\0\4\0\0\0\0\0", 9));
  // The head of a ping: 8 bytes, of type 6, no answer, of the connection.
  EXPECT_THAT(heard_, ::testing::HasSubstr(std::string("\0\0\10\6\0\0\0\0\0", 9)));
}

// ---- strangers ----

TEST_F(RpcServerTest, OfAStrangerNoMessageIsReadAndNoHandlerHearsOfIt) {
  RpcServerOptions options = options_;
  options.check = [](absl::string_view, absl::string_view authorization) {
    return CheckAuthorization(authorization, "secret");
  };
  Start(options);
  const std::string submit = "/muster.v1.JobService/Submit";
  // gRPC reads the whole message of a unary call before its handler runs: it would wait for it.
  for (const char* token : {"", "wrong"}) {
    EXPECT_THAT(CallWithoutMessage(submit, token),
                StatusIs(absl::StatusCode::kUnauthenticated, ::testing::HasSubstr("MUSTER_TOKEN")));
  }
  EXPECT_THAT(CallWithoutMessage(submit, "secret"), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(CallWithoutMessage("/no.such.Service/Method", ""),
              StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(CallWithoutMessage("/no.such.Service/Method", "secret"),
              StatusIs(absl::StatusCode::kUnimplemented));
  grpc::ClientContext context;
  AddToken(context, "secret");
  v1::GetVersionResponse response;
  EXPECT_OK(FromGrpc(stub_->GetVersion(&context, {}, &response)));
}

TEST_F(RpcServerTest, HealthIsToldToAnybodyWithoutReadingWhatTheySay) {
  RpcServerOptions options = options_;
  options.check = [](absl::string_view, absl::string_view) {
    return absl::UnauthenticatedError("a stranger");
  };
  Start(options);
  EXPECT_OK(CallWithoutMessage("/grpc.health.v1.Health/Check", ""));
  EXPECT_THAT(CallWithoutMessage("/grpc.health.v1.Health/Watch", ""),
              StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(RpcServerTest, ReflectionNeedsTheTokenAndHasOnlySoManyThreads) {
  constexpr int kMaxThreads = 8;
  const std::string reflect = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
    grpc::Status status;
    bool ended = false;
  };
  grpc::GenericStub stub(MakeChannel({.address = server_->address()}));
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 2 * kMaxThreads; ++i) {
    streams.push_back(std::make_unique<Stream>());
    Stream& stream = *streams.back();
    stream.call = stub.PrepareCall(&stream.context, reflect, &queue);
    stream.call->StartCall(nullptr);
    stream.call->Finish(&stream.status, &stream);
  }
  // Those that got a thread wait for a question that never comes; the others are sent away.
  int refused = 0;
  void* tag = nullptr;
  bool ok = false;
  const auto patience = std::chrono::system_clock::now() + std::chrono::minutes(1);
  while (refused < kMaxThreads &&
         queue.AsyncNext(&tag, &ok, patience) == grpc::CompletionQueue::GOT_EVENT) {
    if (tag == nullptr) continue;
    auto& stream = *static_cast<Stream*>(tag);
    stream.ended = true;
    EXPECT_THAT(FromGrpc(stream.status), StatusIs(absl::StatusCode::kResourceExhausted));
    ++refused;
  }
  EXPECT_GE(refused, kMaxThreads);
  grpc::ClientContext context;
  v1::GetVersionResponse response;
  EXPECT_OK(FromGrpc(stub_->GetVersion(&context, {}, &response)));
  for (const auto& stream : streams) stream->context.TryCancel();
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  RpcServerOptions options = options_;
  options.check = [](absl::string_view, absl::string_view) {
    return absl::UnauthenticatedError("a stranger");
  };
  Start(options);
  EXPECT_THAT(CallWithoutMessage(reflect, ""), StatusIs(absl::StatusCode::kUnauthenticated));
}

// ---- connections ----

TEST_F(RpcServerTest, WhenDescriptorsRunOutConnectionsWaitAndAreTakenWhenThereAreSomeAgain) {
  grpc::ClientContext before;
  v1::GetVersionResponse response;
  ASSERT_OK(FromGrpc(stub_->GetVersion(&before, {}, &response)));
  // Of its own, before there are none: what connects while the server has nothing to take it with.
  const UniqueFd late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit whole = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &whole), 0);
  rlimit few = whole;
  few.rlim_cur = std::min<rlim_t>(whole.rlim_cur, 256);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<UniqueFd> taken;
  for (int fd = ::dup(late.get()); fd >= 0; fd = ::dup(late.get())) taken.emplace_back(fd);
  EXPECT_EQ(errno, EMFILE);
  ConnectTo(late.get());
  const bool noticed =
      WaitUntil(absl::Seconds(60), [this] { return server_->listener().failed() > 0; });
  taken.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &whole), 0);
  ASSERT_TRUE(noticed);
  EXPECT_TRUE(IsGreeted(late.get())) << "who connected meanwhile is served";
  const UniqueFd next = Connect();
  EXPECT_TRUE(IsGreeted(next.get()));
  grpc::ClientContext after;
  EXPECT_OK(FromGrpc(stub_->GetVersion(&after, {}, &response)));
}

TEST_F(RpcServerTest, OneThatComesTakesThePlaceOfTheOldestWhoseCallerIsNotKnown) {
  for (const ConnectionBounds bounds : {ConnectionBounds{3, 3}, ConnectionBounds{100, 3}}) {
    RpcServerOptions options = options_;
    options.connections = bounds;
    options.open = std::make_shared<OpenConnections>();
    Start(options);
    std::vector<UniqueFd> open;
    for (int i = 0; i < 3; ++i) {
      open.push_back(Connect());
      ASSERT_TRUE(IsGreeted(open.back().get())) << i;
    }
    options.open->Know(PeerOf(open[0].get()));
    for (int i = 0; i < 5; ++i) {
      open.push_back(Connect());
      EXPECT_TRUE(IsGreeted(open.back().get())) << i;
    }
    EXPECT_EQ(server_->listener().displaced(), 5u);
    EXPECT_EQ(server_->listener().refused(), 0u);
    EXPECT_TRUE(IsOpen(open[0].get()));
    for (int i = 1; i < 6; ++i) EXPECT_FALSE(IsOpen(open[i].get())) << i;
    EXPECT_TRUE(IsOpen(open[7].get()));
  }
}

TEST_F(RpcServerTest, ConnectionsBeyondTheirBoundAreClosedUntilOthersHaveEnded) {
  for (const ConnectionBounds bounds : {ConnectionBounds{4, 4}, ConnectionBounds{100, 4}}) {
    RpcServerOptions options = options_;
    options.connections = bounds;
    options.open = std::make_shared<OpenConnections>();
    Start(options);
    std::vector<UniqueFd> open;
    for (int i = 0; i < 4; ++i) {
      open.push_back(Connect());
      ASSERT_TRUE(IsGreeted(open.back().get())) << i;
      options.open->Know(PeerOf(open.back().get()));
    }
    const UniqueFd more = Connect();
    EXPECT_FALSE(IsGreeted(more.get()));
    EXPECT_EQ(server_->listener().refused(), 1u);
    open.clear();
    // gRPC closes its end when it has heard of ours.
    EXPECT_TRUE(WaitUntil(absl::Seconds(60), [this] {
      const UniqueFd next = Connect();
      return IsGreeted(next.get());
    }));
  }
}

TEST_F(RpcServerTest, AConnectionWithoutCallsIsClosedAndTheClientConnectsAnew) {
  RpcServerOptions options = options_;
  options.max_idle = absl::Milliseconds(200);
  Start(options);
  AwaitHangUp(std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") +
              std::string("\0\0\0\4\0\0\0\0\0", 9));
  grpc::ClientContext context;
  v1::GetVersionResponse response;
  EXPECT_OK(FromGrpc(stub_->GetVersion(&context, {}, &response)));
}

TEST_F(RpcServerTest, ASecondServerIsToldThatThePortIsTaken) {
  RpcServerOptions options = options_;
  options.listen = server_->address();
  EXPECT_THAT(RpcServer::Start(options, {&service_}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       ::testing::AllOf(::testing::HasSubstr(server_->address()),
                                        ::testing::HasSubstr("is the port taken"))));
}

}  // namespace
}  // namespace muster::controller
