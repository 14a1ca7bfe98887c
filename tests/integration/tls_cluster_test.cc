// A cluster as docs/SECURITY.md sets it up: a CA, certificates and a configuration by `musterd
// init` and `certify`, two workers, and a person who has the CA's certificate and the token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/digits_job.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TlsClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ProcessResult made = RunProcess(
        {BinDir() + "/musterd", "init", "--data-dir", Controller(), "--host", "muster.example.org"},
        environment_, absl::Minutes(1));
    ASSERT_EQ(made.exit_code, 0) << made.err;
    ASSERT_THAT(made.out, HasSubstr("musterd certify NAME"));
    musterd_ = std::make_unique<Subprocess>(
        std::vector<std::string>{BinDir() + "/musterd", "--config", Controller() + "/musterd.yaml",
                                 "--listen", "127.0.0.1:0", "--worker-listen", "127.0.0.1:0",
                                 "--http-listen", "127.0.0.1:0"},
        environment_, dir_ / "musterd.log");
    ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] {
      endpoints_ = Json::parse(Read(Controller() + "/endpoints.json"), nullptr, false);
      return endpoints_.is_object();
    })) << Read(dir_ / "musterd.log");
  }
  void TearDown() override {
    for (const auto& agent : agents_) {
      agent->Signal(SIGTERM);
      agent->Wait(absl::Seconds(30));
    }
    if (musterd_ != nullptr) musterd_->Signal(SIGTERM);
    if (musterd_ != nullptr) musterd_->Wait(absl::Seconds(30));
  }

  std::string Controller() const { return dir_ / "controller"; }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Makes the worker's certificate in the folder `name`.
  void Certify(const std::string& name) {
    const ProcessResult made = RunProcess(
        {BinDir() + "/musterd", "certify", name, "--data-dir", Controller(), "--out", dir_ / name},
        environment_, absl::Minutes(1));
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  // Starts an agent called `name` with the certificate of `certified`.
  void StartAgent(const std::string& name, const std::string& certified) {
    const std::string folder = dir_ / certified;
    agents_.push_back(std::make_unique<Subprocess>(
        std::vector<std::string>{BinDir() + "/muster-worker", "--controller",
                                 Text(endpoints_, "worker_address"), "--name", name, "--data-dir",
                                 dir_ / (name + ".data"), "--slots", "1", "--http-listen",
                                 "127.0.0.1:0", "--tls-ca", folder + "/ca.pem", "--tls-cert",
                                 folder + "/worker.pem", "--tls-key", folder + "/worker.key"},
        environment_, dir_ / (name + ".log")));
  }
  ProcessResult Cli(std::vector<std::string> words, const std::string& ca = "") {
    words.insert(words.begin(), {BinDir() + "/muster", "--addr", Text(endpoints_, "grpc_address"),
                                 "--token-file", Controller() + "/token"});
    if (ca != "none") {
      words.insert(words.begin() + 1,
                   {"--ca-file", ca.empty() ? Controller() + "/tls/ca.pem" : ca});
    }
    return RunProcess(words, environment_, absl::Minutes(5));
  }

  TempDir dir_;
  Environment environment_ = {{"HOME", dir_.path()}, {"XDG_CONFIG_HOME", dir_ / "config"}};
  std::unique_ptr<Subprocess> musterd_;
  Json endpoints_;
  std::vector<std::unique_ptr<Subprocess>> agents_;
};

TEST_F(TlsClusterTest, TrainsOverTwoWorkersAndKnowsEachOfThem) {
  for (const std::string name : {"node-1", "node-2"}) {
    ASSERT_NO_FATAL_FAILURE(Certify(name));
    StartAgent(name, name);
  }
  DigitsJob job;
  job.steps = 30;
  job.ranks = 2;
  job.more = "placement: {wait_for_capacity: true}\n";
  std::ofstream(dir_ / "job.yaml") << ToYaml(job);
  const ProcessResult trained = Cli({"submit", "-f", dir_ / "job.yaml", "--wait"});
  EXPECT_EQ(trained.exit_code, 0) << trained.out << trained.err << Read(dir_ / "node-1.log");
  // No agent had the token, and one that takes another's name is refused, and says why.
  StartAgent("node-3", "node-1");
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] {
    return Read(dir_ / "node-3.log").find("is for node-1, not for worker node-3") !=
           std::string::npos;
  })) << Read(dir_ / "node-3.log");
  EXPECT_THAT(Cli({"nodes", "-o", "name"}).out,
              AllOf(HasSubstr("node-1"), HasSubstr("node-2"), Not(HasSubstr("node-3"))));
  // musterd's certificate is renewed while it runs; agents and people go on.
  ASSERT_EQ(RunProcess({BinDir() + "/musterd", "init", "--data-dir", Controller()}, environment_,
                       absl::Minutes(1))
                .exit_code,
            0);
  absl::SleepFor(absl::Seconds(25));
  EXPECT_EQ(Cli({"submit", "-f", dir_ / "job.yaml", "--wait"}).exit_code, 0);
  EXPECT_THAT(Read(dir_ / "musterd.log"), Not(HasSubstr("certificate_not_renewed")));
}

TEST_F(TlsClusterTest, APersonHearsWhatIsWrongWithTheConnection) {
  EXPECT_EQ(Cli({"ls"}).exit_code, 0);
  const ProcessResult plain = Cli({"ls"}, "none");
  EXPECT_EQ(plain.exit_code, 5);
  EXPECT_THAT(plain.err, HasSubstr("--ca-file"));
  const std::string other = dir_ / "other";
  ASSERT_EQ(RunProcess({BinDir() + "/musterd", "init", "--data-dir", other}, environment_,
                       absl::Minutes(1))
                .exit_code,
            0);
  const ProcessResult foreign = Cli({"ls"}, other + "/tls/ca.pem");
  EXPECT_EQ(foreign.exit_code, 5);
  EXPECT_THAT(foreign.err, AllOf(HasSubstr(other), HasSubstr("vouches for")));
  EXPECT_EQ(Cli({"ls"}, dir_ / "nowhere.pem").exit_code, 3);
}

}  // namespace
}  // namespace muster::testing
