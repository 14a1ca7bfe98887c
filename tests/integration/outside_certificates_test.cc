// A cluster whose certificates come from elsewhere, as a company's CA or cert-manager makes them:
// here by the program `openssl` alone. musterd has no key of the CA; a worker works, is revoked,
// and comes back with a newer certificate; replaced files are in use without a restart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/support/tls_musterd.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OutsideCertificatesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(Ca());
    OpenSsl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-days", "30", "-subj", "/O=Example/CN=company-ca", "-keyout", Ca() + "/ca.key",
             "-out", Ca() + "/ca.pem"});
    // The settings of `musterd init`, with these files in the place of its own.
    ASSERT_EQ(musterd_.Musterd({"init", "--data-dir", musterd_.Folder()}).exit_code, 0);
    ASSERT_TRUE(std::filesystem::remove(Tls() + "/ca.key"));
    std::filesystem::copy_file(Ca() + "/ca.pem", Tls() + "/ca.pem",
                               std::filesystem::copy_options::overwrite_existing);
    ASSERT_NO_FATAL_FAILURE(SignServer());
    ASSERT_NO_FATAL_FAILURE(musterd_.Start({"--heartbeat-interval", "1s", "--suspect-after", "3s",
                                            "--lost-after", "6s", "--startup-grace", "0s"}));
  }

  std::string Ca() const { return musterd_.Path("company"); }
  std::string Tls() const { return musterd_.Folder() + "/tls"; }
  std::string OpenSsl(std::vector<std::string> words) {
    words.insert(words.begin(), "openssl");
    const ProcessResult done = RunProcess(words, musterd_.environment(), absl::Minutes(1));
    EXPECT_EQ(done.exit_code, 0) << words[1] << ": " << done.err;
    return done.out;
  }
  // A new key and its certificate, put in the place of what was there.
  void Sign(const std::string& subject, const std::string& extensions,
            const std::string& certificate, const std::string& key) {
    const std::string made = musterd_.Path("made");
    std::ofstream(made + ".ext") << extensions;
    OpenSsl({"req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
             subject, "-keyout", made + ".key", "-out", made + ".csr"});
    OpenSsl({"x509", "-req", "-in", made + ".csr", "-CA", Ca() + "/ca.pem", "-CAkey",
             Ca() + "/ca.key", "-CAcreateserial", "-days", absl::StrCat(days_), "-extfile",
             made + ".ext", "-out", made + ".pem"});
    std::filesystem::rename(made + ".key", key);
    std::filesystem::rename(made + ".pem", certificate);
  }
  void SignServer() {
    Sign("/CN=muster", "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n",
         Tls() + "/server.pem", Tls() + "/server.key");
  }
  void SignWorker(const std::string& name) {
    std::filesystem::create_directories(musterd_.Path(name));
    std::filesystem::copy_file(Ca() + "/ca.pem", musterd_.Path(name + "/ca.pem"),
                               std::filesystem::copy_options::overwrite_existing);
    Sign("/O=Example/CN=" + name, "extendedKeyUsage=clientAuth\n",
         musterd_.Path(name + "/worker.pem"), musterd_.Path(name + "/worker.key"));
  }
  std::string SerialOf(const std::string& certificate) {
    return OpenSsl({"x509", "-noout", "-serial", "-in", certificate});
  }
  // Of the certificate that the people's port shows.
  std::string SerialShown() {
    return RunProcess({"sh", "-c",
                       absl::StrCat("openssl s_client -connect ", musterd_.Address("grpc"),
                                    " -alpn h2 </dev/null 2>/dev/null | openssl x509 -noout "
                                    "-serial")},
                      musterd_.environment(), absl::Minutes(1))
        .out;
  }
  TlsMusterd musterd_;
  int days_ = 10;  // for which what is signed is valid
};

TEST_F(OutsideCertificatesTest, AWorkerWorksIsRevokedAndComesBackWithANewerOne) {
  SignWorker("node-1");
  const auto agent = musterd_.StartAgent("node-1", "node-1");
  ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] { return musterd_.IsReady("node-1"); }))
      << musterd_.Log("node-1") << musterd_.Log();
  // A job in a folder that the worker fetches with its certificate.
  std::filesystem::create_directories(musterd_.Path("code"));
  std::ofstream(musterd_.Path("code/said.txt")) << "from the folder\n";
  std::ofstream(musterd_.Path("job.yaml")) << "name: reads\ncommand: {argv: [cat, said.txt]}\n";
  const ProcessResult ran = musterd_.Cli(
      {"submit", "-f", musterd_.Path("job.yaml"), "--upload", musterd_.Path("code"), "--wait"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err << musterd_.Log("node-1");
  EXPECT_THAT(musterd_.Cli({"logs", "1"}).out, HasSubstr("from the folder"));
  // Nobody can join: the CA's key is elsewhere.
  const ProcessResult token = musterd_.Cli({"join-token", "create"});
  EXPECT_NE(token.exit_code, 0);
  EXPECT_THAT(token.err, HasSubstr("come from elsewhere"));

  ASSERT_EQ(musterd_.Cli({"nodes", "revoke", "node-1"}).exit_code, 0);
  constexpr char kRevoked[] = "that this agent shows was revoked";
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] {
    return absl::StrContains(musterd_.Log("node-1"), kRevoked);
  })) << musterd_.Log("node-1");
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return !musterd_.IsReady("node-1"); }));
  EXPECT_THAT(musterd_.Cli({"audit", "--denied", "-o", "json"}).out, HasSubstr(kRevoked));

  // Its certificate is for the time from a whole second on, which has to be after the revocation.
  absl::SleepFor(absl::Seconds(2));
  SignWorker("node-1");
  agent->Signal(SIGTERM);
  agent->Wait(absl::Seconds(30));
  const auto again = musterd_.StartAgent("node-1", "node-1");
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return musterd_.IsReady("node-1"); }))
      << musterd_.Log("node-1");
  again->Signal(SIGTERM);
  again->Wait(absl::Seconds(30));
}

// Of the agent's, by its metrics.
TEST_F(OutsideCertificatesTest, AWorkersReplacedCertificateIsInUseWithoutARestart) {
  SignWorker("node-1");
  const auto agent = musterd_.StartAgent("node-1", "node-1");
  ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] { return musterd_.IsReady("node-1"); }))
      << musterd_.Log("node-1");
  const Json endpoints =
      Json::parse(musterd_.Read(musterd_.Path("node-1.data/endpoints.json")), nullptr, false);
  const std::string url = absl::StrCat("http://", Text(endpoints, "metrics_address"), "/metrics");
  const auto end_of = [&] {
    const std::string page =
        RunProcess({"curl", "-s", "-m", "20", url}, musterd_.environment(), absl::Minutes(1)).out;
    const std::string name = "\nmuster_worker_certificate_expiry_time_seconds ";
    const size_t at = page.find(name);
    return at == std::string::npos ? -1 : ::strtod(page.c_str() + at + name.size(), nullptr);
  };
  const double first = end_of();
  ASSERT_GT(first, 0);
  days_ = 20;
  SignWorker("node-1");
  EXPECT_TRUE(WaitUntil(absl::Minutes(2), [&] { return end_of() > first + 9 * 24 * 3600; }))
      << musterd_.Log("node-1");
  EXPECT_TRUE(musterd_.IsReady("node-1"));
  EXPECT_THAT(musterd_.Log("node-1"), Not(HasSubstr("agent_stopping")));
  agent->Signal(SIGTERM);
  agent->Wait(absl::Seconds(30));
}

TEST_F(OutsideCertificatesTest, AReplacedCertificateIsShownWithoutARestart) {
  const std::string first = SerialOf(Tls() + "/server.pem");
  EXPECT_EQ(SerialShown(), first);
  const pid_t pid = musterd_.pid();
  ASSERT_NO_FATAL_FAILURE(SignServer());
  const std::string second = SerialOf(Tls() + "/server.pem");
  ASSERT_NE(second, first);
  EXPECT_TRUE(WaitUntil(absl::Minutes(2), [&] { return SerialShown() == second; }))
      << musterd_.Log();
  EXPECT_EQ(musterd_.Cli({"ls"}).exit_code, 0);
  EXPECT_EQ(Number(Json::parse(musterd_.Read(musterd_.Folder() + "/endpoints.json")), "pid"), pid);
  EXPECT_THAT(musterd_.Log(), Not(HasSubstr("certificate_not_renewed")));
  // One that is not its key's stays out, and the log says why.
  std::filesystem::copy_file(Ca() + "/ca.pem", Tls() + "/server.pem",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(WaitUntil(absl::Minutes(2), [&] {
    return absl::StrContains(musterd_.Log(), "certificate_not_renewed");
  }));
  EXPECT_EQ(SerialShown(), second);
}

}  // namespace
}  // namespace muster::testing
