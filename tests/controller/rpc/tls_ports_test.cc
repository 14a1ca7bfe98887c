// Encrypted gRPC ports: who may connect, what who may not hears, and that renewed files are taken
// while the server runs.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <optional>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fs/file_system.h"
#include "common/rpc/channel.h"
#include "common/rpc/peer_certificate.h"
#include "common/rpc/status_map.h"
#include "common/tls/tls_watcher.h"
#include "controller/rpc/rpc_server.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_certificates.h"

namespace muster::controller {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::muster::testing::TestCertificates;
using ::muster::testing::WaitUntil;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Remembers whom the last caller's certificate is for.
class NamingService final : public v1::JobService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetVersion(grpc::CallbackServerContext* context,
                                       const v1::GetVersionRequest*,
                                       v1::GetVersionResponse*) override {
    {
      MutexLock lock(mutex_);
      names_ = PeerNamesOf(*context);
    }
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  PeerNames names() MUSTER_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return names_;
  }

 private:
  Mutex mutex_;
  PeerNames names_ MUSTER_GUARDED_BY(mutex_);
};

class TlsPortsTest : public ::testing::Test {
 protected:
  void Start(bool of_known_clients, const TlsFiles& files) {
    RpcServerOptions options{.name = "test", .listen = "127.0.0.1:0"};
    options.max_receive_bytes = 64 << 10;
    options.memory_bytes = 64 << 20;
    options.security = {.tls = files, .of_known_clients = of_known_clients, .refresh_seconds = 1};
    auto server = RpcServer::Start(options, {&service_});
    ASSERT_OK(server);
    server_ = *std::move(server);
  }
  void StartForWorkers() { Start(/*of_known_clients=*/true, certificates_.OfServer()); }
  void StartForPeople() { Start(/*of_known_clients=*/false, certificates_.OfServer()); }

  // One call on a connection of its own.
  absl::Status Call(const TlsFiles& tls, const std::string& host = "127.0.0.1") {
    const std::string address = server_->address();
    const auto channel =
        MakeChannel({.address = host + address.substr(address.rfind(':')), .tls = tls});
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::GetVersionResponse response;
    return FromGrpc(v1::JobService::NewStub(channel)->GetVersion(&context, {}, &response));
  }

  TempDir dir_;
  TestCertificates certificates_{dir_.path()};
  NamingService service_;
  std::unique_ptr<RpcServer> server_;
};

TEST_F(TlsPortsTest, APlainPortKnowsNobody) {
  Start(/*of_known_clients=*/false, {});
  EXPECT_OK(Call({}));
  EXPECT_EQ(service_.names(), std::nullopt);
}

TEST_F(TlsPortsTest, PeopleNeedTheCaAlone) {
  StartForPeople();
  const TlsFiles ca_only{.ca = dir_ / "ca.pem"};
  EXPECT_OK(Call(ca_only));
  EXPECT_OK(Call(ca_only, "localhost"));
  EXPECT_EQ(service_.names(), std::vector<std::string>{});
}

TEST_F(TlsPortsTest, AWorkersCertificateSaysWhoseItIs) {
  StartForWorkers();
  EXPECT_OK(Call(certificates_.OfWorker("node-1")));
  EXPECT_EQ(service_.names(), std::vector<std::string>{"node-1"});
  EXPECT_OK(CheckPeerIs("node-1", service_.names()));
  EXPECT_THAT(CheckPeerIs("node-2", service_.names()),
              StatusIs(StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("node-1"), HasSubstr("node-2"), HasSubstr("--name"))));
}

TEST_F(TlsPortsTest, WhoHasNoCertificateOfTheCaDoesNotReachAHandler) {
  StartForWorkers();
  TempDir elsewhere;
  TestCertificates foreign(elsewhere.path());
  TlsFiles stranger = foreign.OfWorker("node-1");
  stranger.ca = dir_ / "ca.pem";
  const TlsFiles expired =
      certificates_.OfWorker("late", absl::Now() - absl::Hours(48), absl::Hours(24));
  // It is for serving.
  const TlsFiles server = certificates_.OfServer("other-server");
  for (const TlsFiles& tls :
       {TlsFiles{}, TlsFiles{.ca = dir_ / "ca.pem"}, stranger, expired, server}) {
    EXPECT_THAT(Call(tls), StatusIs(StatusCode::kUnavailable)) << tls.cert;
  }
  EXPECT_EQ(service_.names(), std::nullopt);
}

TEST_F(TlsPortsTest, AServerThatIsNotTheOneIsRefused) {
  // Of another CA.
  TempDir elsewhere;
  TestCertificates foreign(elsewhere.path());
  Start(/*of_known_clients=*/false, foreign.OfServer());
  EXPECT_THAT(Call({.ca = dir_ / "ca.pem"}),
              StatusIs(StatusCode::kUnavailable, HasSubstr("certificate verify failed")));
  // For another host.
  Start(/*of_known_clients=*/false, certificates_.OfServer("elsewhere", {"muster.example.org"}));
  EXPECT_THAT(Call({.ca = dir_ / "ca.pem"}), StatusIs(StatusCode::kUnavailable));
  // A worker that plays the controller.
  Start(/*of_known_clients=*/false, certificates_.OfWorker("localhost"));
  EXPECT_THAT(Call({.ca = dir_ / "ca.pem"}, "localhost"), StatusIs(StatusCode::kUnavailable));
  // One that does not speak TLS.
  Start(/*of_known_clients=*/false, {});
  EXPECT_THAT(Call({.ca = dir_ / "ca.pem"}), StatusIs(StatusCode::kUnavailable));
  EXPECT_EQ(service_.names(), std::nullopt);
}

TEST_F(TlsPortsTest, RenewedFilesAreTakenWithoutARestart) {
  const TlsFiles files = certificates_.OfServer("server", {"muster.example.org"});
  RealClock clock;
  ASSERT_OK_AND_ASSIGN(
      const auto watcher,
      TlsWatcher::Start(PosixFileSystem(), clock, files, dir_ / "in-use", absl::Milliseconds(100)));
  Start(/*of_known_clients=*/false, watcher->files());
  const TlsFiles ca_only{.ca = files.ca};
  EXPECT_THAT(Call(ca_only), StatusIs(StatusCode::kUnavailable));
  certificates_.OfServer("server", {"127.0.0.1"});
  EXPECT_TRUE(WaitUntil(absl::Seconds(60), [&] { return Call(ca_only).ok(); }));
  // Nonsense changes nothing, nor does a certificate without its key.
  for (const std::string& text : {std::string("text"), certificates_.authority().certificate()}) {
    TestCertificates::Write(files.cert, text);
    absl::SleepFor(absl::Seconds(2));
    EXPECT_OK(Call(ca_only));
  }
  certificates_.OfServer("server", {"muster.example.org"});
  EXPECT_TRUE(WaitUntil(absl::Seconds(60), [&] { return !Call(ca_only).ok(); }));
}

}  // namespace
}  // namespace muster::controller
