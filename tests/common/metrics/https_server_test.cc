// The HTTP port with TLS and a token, asked by curl, which knows the CA as Prometheus would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/fs/file_system.h"
#include "common/metrics/http_server.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_certificates.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::ProcessResult;
using ::muster::testing::RunProcess;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::muster::testing::TestCertificates;
using ::muster::testing::WaitUntil;
using ::testing::HasSubstr;

class HttpsServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteIdentity(certificates_.OfServer());
    const auto ok = [](const ServedRequest&) { return ServedResponse{.body = "served\n"}; };
    HttpServer::Options options;
    options.identity_file = identity_;
    options.refresh = absl::Milliseconds(50);
    options.timeout = absl::Seconds(1);
    options.token = "secret-of-scrapes";
    ASSERT_OK_AND_ASSIGN(server_,
                         HttpServer::Create(options, {{"/metrics", ok}, {"/healthz", ok}}));
  }
  void WriteIdentity(const TlsFiles& files) {
    FileSystem& fs = PosixFileSystem();
    ASSERT_OK(WriteFileAtomically(
        fs, identity_, *fs.ReadFile(files.key, 1 << 20) + "\n" + *fs.ReadFile(files.cert, 1 << 20),
        0600));
  }
  // What curl prints: the status, then the fingerprint-free verdict on the certificate.
  ProcessResult Ask(const std::string& path, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {
        "curl", "-sS", "-m", "20", "--cacert", certificates_.OfServer().ca, "-w", "%{http_code}"};
    words.insert(words.end(), more.begin(), more.end());
    words.push_back("https://" + server_->address() + path);
    return RunProcess(words, {{"PATH", "/usr/bin:/bin"}}, absl::Seconds(30));
  }

  TempDir dir_;
  TestCertificates certificates_{dir_.path()};
  const std::string identity_ = dir_ / "identity.pem";
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpsServerTest, WantsTheTokenForAllButProbes) {
  EXPECT_EQ(Ask("/healthz").out, "served\n200");
  EXPECT_THAT(Ask("/metrics").out, HasSubstr("401"));
  EXPECT_THAT(Ask("/elsewhere").out, HasSubstr("401"));
  EXPECT_THAT(Ask("/metrics", {"-H", "Authorization: Bearer secret-of-scrapeS"}).out,
              HasSubstr("401"));
  EXPECT_EQ(Ask("/metrics", {"-H", "Authorization: Bearer secret-of-scrapes"}).out, "served\n200");
  EXPECT_EQ(Ask("/metrics", {"-u", "me:secret-of-scrapes"}).out, "served\n200");
}

TEST_F(HttpsServerTest, SpeaksTlsOfTodayAlone) {
  EXPECT_NE(Ask("/healthz", {"--tls-max", "1.1"}).exit_code, 0);
  const ProcessResult plain =
      RunProcess({"curl", "-sS", "-m", "20", "http://" + server_->address() + "/healthz"},
                 {{"PATH", "/usr/bin:/bin"}}, absl::Seconds(30));
  EXPECT_NE(plain.exit_code, 0);
}

TEST_F(HttpsServerTest, TakesOverARenewedCertificateAndKeepsTheOldOneWhenTheNewIsNone) {
  const std::string before = server_->address();
  // That of a worker is not for this host: curl says so once it is shown.
  WriteIdentity(certificates_.OfWorker("node-1"));
  EXPECT_TRUE(WaitUntil(absl::Seconds(30), [&] { return Ask("/healthz").exit_code != 0; }));
  WriteIdentity(certificates_.OfServer());
  EXPECT_TRUE(WaitUntil(absl::Seconds(30), [&] { return Ask("/healthz").exit_code == 0; }));
  ASSERT_OK(WriteFileAtomically(PosixFileSystem(), identity_, "nonsense", 0600));
  absl::SleepFor(absl::Seconds(2));
  EXPECT_EQ(Ask("/healthz").out, "served\n200");
  EXPECT_EQ(server_->address(), before);
}

TEST(HttpsServerStartTest, AnIdentityThatIsNoneIsRefused) {
  TempDir dir;
  ASSERT_OK(WriteFileAtomically(PosixFileSystem(), dir / "identity.pem", "nonsense", 0600));
  HttpServer::Options options;
  options.identity_file = dir / "identity.pem";
  EXPECT_THAT(HttpServer::Create(options, {}).status(),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("identity.pem")));
}

}  // namespace
}  // namespace muster
