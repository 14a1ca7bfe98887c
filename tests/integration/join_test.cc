// Machines become workers by `muster-worker join`, with real processes: what a token allows and
// what it does not, certificates that are renewed while a job runs, one that is revoked, and the
// user data of deploy/cloud-init.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string TextOfFile(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class JoinTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ProcessResult made =
        RunProcess({BinDir() + "/musterd", "init", "--data-dir", Controller()}, environment_,
                   absl::Minutes(1));
    ASSERT_EQ(made.exit_code, 0) << made.err;
    ASSERT_NO_FATAL_FAILURE(StartController("127.0.0.1:0", "127.0.0.1:0"));
  }
  void TearDown() override {
    for (auto& [name, agent] : agents_) agent->Signal(SIGTERM);
    for (auto& [name, agent] : agents_) agent->Wait(absl::Seconds(30));
    StopController();
  }

  std::string Controller() const { return dir_ / "controller"; }
  std::string Data(const std::string& machine) const { return dir_ / (machine + ".data"); }
  std::string Log(const std::string& machine) const {
    return TextOfFile(dir_ / (machine + ".log"));
  }

  void StartController(const std::string& people, const std::string& workers) {
    musterd_ = std::make_unique<Subprocess>(
        std::vector<std::string>{BinDir() + "/musterd", "--config", Controller() + "/musterd.yaml",
                                 "--listen", people, "--worker-listen", workers, "--http-listen",
                                 "127.0.0.1:0", "--certificate-lifetime", "30s"},
        environment_, dir_ / "musterd.log");
    ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] {
      endpoints_ = Json::parse(TextOfFile(Controller() + "/endpoints.json"), nullptr, false);
      return endpoints_.is_object();
    })) << Log("musterd");
  }
  void StopController() {
    if (musterd_ == nullptr) return;
    musterd_->Signal(SIGTERM);
    musterd_->Wait(absl::Seconds(30));
    musterd_.reset();
  }

  ProcessResult Cli(std::vector<std::string> words) {
    words.insert(words.begin(),
                 {BinDir() + "/muster", "--addr", Text(endpoints_, "grpc_address"), "--token-file",
                  Controller() + "/token", "--ca-file", Controller() + "/tls/ca.pem"});
    return RunProcess(words, environment_, absl::Minutes(3));
  }
  std::string NewToken(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"join-token", "create", "-o", "json"});
    const ProcessResult made = Cli(flags);
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return Text(Json::parse(made.out, nullptr, false), "token");
  }
  ProcessResult Join(const std::string& machine, const std::string& name, const std::string& token,
                     const std::vector<std::string>& more = {}) {
    Environment environment = environment_;
    environment["MUSTER_JOIN_TOKEN"] = token;
    std::vector<std::string> words = {BinDir() + "/muster-worker",
                                      "join",
                                      Text(endpoints_, "grpc_address"),
                                      "--name",
                                      name,
                                      "--data-dir",
                                      Data(machine)};
    words.insert(words.end(), more.begin(), more.end());
    return RunProcess(words, environment, absl::Minutes(2));
  }
  // With the metrics' port of its worker.yaml where `http` is empty.
  void StartAgent(const std::string& machine, const std::string& http = "127.0.0.1:0") {
    std::vector<std::string> words = {BinDir() + "/muster-worker",
                                      "--config",
                                      Data(machine) + "/worker.yaml",
                                      "--slots",
                                      "1",
                                      "--allow-commands",
                                      "--container-runtime",
                                      "none"};
    if (!http.empty()) words.insert(words.end(), {"--http-listen", http});
    agents_[machine] = std::make_unique<Subprocess>(words, environment_, dir_ / (machine + ".log"));
  }
  bool IsReady(const std::string& name) {
    for (const Json& worker : Json::parse(Cli({"nodes", "-o", "json"}).out, nullptr, false)) {
      if (Text(worker, "name") == name) return Text(worker, "state") == "ready";
    }
    return false;
  }
  bool LogHas(const std::string& machine, const std::string& text) {
    return WaitUntil(absl::Minutes(1),
                     [&] { return Log(machine).find(text) != std::string::npos; });
  }

  TempDir dir_;
  Environment environment_ = {{"HOME", dir_.path()}, {"XDG_CONFIG_HOME", dir_ / "config"}};
  std::unique_ptr<Subprocess> musterd_;
  Json endpoints_;
  std::map<std::string, std::unique_ptr<Subprocess>> agents_;
};

TEST_F(JoinTest, MachinesJoinRenewWhileAJobRunsAndAreRevoked) {
  const std::string token = NewToken({"--uses", "2", "--for", "10m"});
  for (const std::string name : {"node-1", "node-2"}) {
    const ProcessResult joined = Join(name, name, token);
    ASSERT_EQ(joined.exit_code, 0) << joined.err;
    EXPECT_THAT(joined.out, HasSubstr(Data(name) + "/worker.yaml"));
    struct stat info = {};
    ASSERT_EQ(::stat((Data(name) + "/tls/worker.key").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  }
  // Again by the same machine: as if the first answer had been lost. By another: the uses are
  // spent.
  EXPECT_EQ(Join("node-1", "node-1", token).exit_code, 0);
  EXPECT_THAT(Cli({"join-token", "ls", "--no-header"}).out, HasSubstr("2/2"));
  const ProcessResult third = Join("node-3", "node-3", token);
  EXPECT_EQ(third.exit_code, 1);
  EXPECT_THAT(third.err, HasSubstr("is used up"));
  EXPECT_THAT(Cli({"audit", "--denied", "-o", "json"}).out,
              AllOf(HasSubstr("EnrollService/Enroll"), HasSubstr("is used up")));

  for (const std::string name : {"node-1", "node-2"}) StartAgent(name);
  ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] { return IsReady("node-1") && IsReady("node-2"); }))
      << Log("node-1") << Log("musterd");
  const ProcessResult submitted =
      Cli({"submit", "--ranks", "2", "-q", "--", "sh", "-c", "sleep 35"});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  for (const std::string name : {"node-1", "node-2"}) {
    EXPECT_TRUE(LogHas(name, "certificate_renewed")) << Log(name);
  }
  const ProcessResult ended = Cli({"wait", submitted.out.substr(0, submitted.out.find('\n'))});
  EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err << Log("node-1");
  // By now the first certificate has expired; a new process shows the renewed one.
  agents_["node-1"]->Signal(SIGTERM);
  agents_["node-1"]->Wait(absl::Seconds(30));
  StartAgent("node-1");
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return IsReady("node-1"); })) << Log("node-1");

  // One machine's certificate, or token, is no other machine's name.
  const ProcessResult taken = Join("node-4", "node-2", NewToken({}));
  EXPECT_EQ(taken.exit_code, 1);
  EXPECT_THAT(taken.err, HasSubstr("another machine holds a certificate for the name node-2"));

  const ProcessResult revoked = Cli({"nodes", "revoke", "node-2"});
  ASSERT_EQ(revoked.exit_code, 0) << revoked.err;
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return !IsReady("node-2"); }));
  EXPECT_TRUE(IsReady("node-1"));
  // And after a restart.
  const std::string people = Text(endpoints_, "grpc_address");
  const std::string workers = Text(endpoints_, "worker_address");
  StopController();
  ASSERT_NO_FATAL_FAILURE(StartController(people, workers));
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return IsReady("node-1"); })) << Log("node-1");
  EXPECT_FALSE(IsReady("node-2"));
  EXPECT_THAT(Cli({"nodes", "-o", "json"}).out, Not(HasSubstr("node-3")));
  const ProcessResult back = Join("node-2", "node-2", NewToken({}));
  EXPECT_EQ(back.exit_code, 1);
  EXPECT_THAT(back.err, HasSubstr("with this machine's key was revoked"));
}

TEST_F(JoinTest, RefusesWhatATokenDoesNotAllow) {
  const std::string late = NewToken({"--for", "1s"});
  absl::SleepFor(absl::Seconds(2));
  const ProcessResult expired = Join("late", "late", late);
  EXPECT_EQ(expired.exit_code, 1);
  EXPECT_THAT(expired.err, HasSubstr("expired at"));
  EXPECT_THAT(
      Cli({"audit", "--denied", "-o", "json"}).out,
      AllOf(HasSubstr("EnrollService/Enroll"), HasSubstr("worker late"), HasSubstr("expired at")));

  const std::string token = NewToken({"--name-prefix", "gpu-", "--uses", "3"});
  const ProcessResult prefix = Join("cpu-1", "cpu-1", token);
  EXPECT_EQ(prefix.exit_code, 1);
  EXPECT_THAT(prefix.err, HasSubstr("names begin with `gpu-`"));

  // Another cluster's token: the secret stays here.
  std::string foreign = token;
  foreign.back() = foreign.back() == '0' ? '1' : '0';
  const ProcessResult unknown = Join("gpu-1", "gpu-1", foreign);
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("fingerprint differs"), HasSubstr("was not sent")));
  EXPECT_THAT(Log("musterd"), Not(HasSubstr("gpu-1")));

  // A guessed secret.
  std::string guessed = token;
  guessed[30] = guessed[30] == '0' ? '1' : '0';
  EXPECT_THAT(Join("gpu-1", "gpu-1", guessed).err, HasSubstr("not known here"));

  ASSERT_EQ(Join("gpu-1", "gpu-1", token).exit_code, 0);
  const ProcessResult swapped = Join("gpu-2", "gpu-1", token);
  EXPECT_EQ(swapped.exit_code, 1);
  EXPECT_THAT(swapped.err, HasSubstr("another machine holds"));
  EXPECT_EQ(Join("gpu-2", "gpu-1", NewToken({"--replace"})).exit_code, 0);
  // The agent of the machine that lost the name is refused from its first word on.
  StartAgent("gpu-1");
  EXPECT_TRUE(LogHas("gpu-1", "another machine took its name")) << Log("gpu-1");
  StartAgent("gpu-2");
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return IsReady("gpu-1"); })) << Log("gpu-2");

  const std::string id = token.substr(token.find('.') + 1, 12);
  EXPECT_EQ(Cli({"join-token", "revoke", id}).exit_code, 0);
  EXPECT_THAT(Join("gpu-3", "gpu-3", token).err, HasSubstr("was revoked"));
  EXPECT_EQ(Cli({"join-token", "revoke", "000000000000"}).exit_code, 3);

  // No secret is where others read it.
  const std::string secret = token.substr(token.find('.') + 14, 64);
  EXPECT_THAT(Log("musterd") + Log("gpu-1") + Log("gpu-2"), Not(HasSubstr(secret)));
  EXPECT_THAT(
      TextOfFile(Controller() + "/enrollment.db") + TextOfFile(Controller() + "/enrollment.db-wal"),
      Not(HasSubstr(secret)));
}

TEST_F(JoinTest, ThePageShowsTheCommandThatIsPrinted) {
  const ProcessResult made =
      Cli({"join-token", "create", "--uses", "10", "--for", "1h", "--name-prefix", "gpu-"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const size_t token = made.out.find("muster-join.");
  ASSERT_NE(token, std::string::npos) << made.out;
  const std::string secret = made.out.substr(token, made.out.find(' ', token) - token);
  const std::string shown = absl::StrReplaceAll(
      made.out,
      {{secret, "muster-join...."}, {Text(endpoints_, "grpc_address"), "muster.example.org:7070"}});
  EXPECT_THAT(TextOfFile(SourceDir() + "/docs/SECURITY.md"),
              HasSubstr(absl::StrCat("\n```\n", shown, "```\n")));
}

TEST_F(JoinTest, AControllerWithoutACertificateAuthorityOfItsOwnSaysSo) {
  ASSERT_EQ(::rename((Controller() + "/tls/ca.key").c_str(), (dir_ / "ca.key").c_str()), 0);
  const ProcessResult made = Cli({"join-token", "create"});
  EXPECT_NE(made.exit_code, 0);
  EXPECT_THAT(made.err, AllOf(HasSubstr("ca.key"), HasSubstr("come from elsewhere")));
}

TEST_F(JoinTest, AWorkersMetricsAreReadByTlsAndWithTheScrapeToken) {
  const ProcessResult joined = Join("node-1", "node-1", NewToken({}));
  ASSERT_EQ(joined.exit_code, 0) << joined.err;
  StartAgent("node-1", "0.0.0.0:0");
  ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] { return IsReady("node-1"); })) << Log("node-1");
  // As Prometheus does it: from /sd to the worker, whose certificate is for one fixed name.
  const auto curl = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"curl", "-sS", "-m", "20"});
    return RunProcess(words, {{"PATH", "/usr/bin:/bin"}}, absl::Seconds(30));
  };
  const Json found = Json::parse(
      curl({absl::StrCat("http://", Text(endpoints_, "http_address"), "/sd")}).out, nullptr, false);
  ASSERT_EQ(found.size(), 1u) << found.dump();
  EXPECT_EQ(found[0]["labels"]["__scheme__"], "https");
  const std::string target = found[0]["targets"][0];
  const std::string port = target.substr(target.rfind(':') + 1);
  const std::string url = absl::StrCat("https://workers.muster.internal:", port, "/metrics");
  const auto scrape = [&](const std::string& token) {
    return curl({"--cacert", Controller() + "/tls/ca.pem", "--resolve",
                 absl::StrCat("workers.muster.internal:", port, ":127.0.0.1"), "-w", "%{http_code}",
                 "-H", "Authorization: Bearer " + token, url});
  };
  std::string token = TextOfFile(Controller() + "/worker-scrape-token");
  token = token.substr(0, token.find('\n'));
  const ProcessResult read = scrape(token);
  EXPECT_THAT(read.out, AllOf(HasSubstr("muster_worker_"), HasSubstr("200"))) << read.err;
  const std::string peoples = TextOfFile(Controller() + "/token");
  EXPECT_THAT(scrape(peoples.substr(0, peoples.find('\n'))).out,
              AllOf(HasSubstr("401"), Not(HasSubstr("muster_worker_"))));
  EXPECT_NE(curl({absl::StrCat("http://127.0.0.1:", port, "/metrics")}).exit_code, 0) << "plain";
}

TEST_F(JoinTest, WorkersOfOneMachineServeTheirMetricsOnPortsOfTheirOwn) {
  const ProcessResult odd = Join("node-1", "node-1", NewToken({}), {"--http-listen", "everywhere"});
  EXPECT_EQ(odd.exit_code, 2);
  EXPECT_THAT(odd.err, HasSubstr("--http-listen: "));
  for (const char* name : {"node-1", "node-2"}) {
    const ProcessResult joined = Join(name, name, NewToken({}), {"--http-listen", "0.0.0.0:0"});
    ASSERT_EQ(joined.exit_code, 0) << joined.err;
    EXPECT_THAT(TextOfFile(Data(name) + "/worker.yaml"), HasSubstr("http-listen: 0.0.0.0:0\n"));
    StartAgent(name, "");
  }
  for (const char* name : {"node-1", "node-2"}) {
    EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return IsReady(name); })) << Log(name);
  }
  // Who keeps to a port that another has is told the way out.
  const std::string target =
      Text(Json::parse(TextOfFile(Data("node-1") + "/endpoints.json"), nullptr, false),
           "metrics_address");
  const std::string taken = target.substr(target.rfind(':'));
  ASSERT_EQ(Join("node-3", "node-3", NewToken({}), {"--http-listen", "0.0.0.0" + taken}).exit_code,
            0);
  StartAgent("node-3", "");
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] {
    return absl::StrContains(Log("node-3"), "Address already in use; port 0 takes any");
  })) << Log("node-3");
}

// The configuration file that a machine of the cloud gets by its user data.
std::string ConfigInUserData(const std::string& cloud) {
  const std::string text = TextOfFile(SourceDir() + "/deploy/cloud-init/" + cloud + ".yaml");
  const size_t begin =
      text.find("content: |\n", text.find("path: /etc/muster/muster-worker.yaml\n"));
  const size_t end = text.find("\n  - path:", begin);
  if (begin == std::string::npos || end == std::string::npos) return "";
  const size_t first = text.find('\n', begin);
  return absl::StrReplaceAll(text.substr(first, end - first), {{"\n      ", "\n"}});
}

TEST_F(JoinTest, AMachineOfACloudJoinsAsItsUserDataSays) {
  const std::vector<std::string> clouds = {"aws", "gcp", "azure"};
  const std::string token = NewToken({"--uses", "3", "--replace"});
  for (const std::string& cloud : clouds) {
    const std::string config = dir_ / (cloud + ".yaml");
    std::ofstream(config) << absl::StrReplaceAll(
                                 ConfigInUserData(cloud),
                                 {{"muster.example.org:7071", Text(endpoints_, "worker_address")},
                                  {"/var/lib/muster/worker", Data(cloud)},
                                  {":7073", ":0"}})
                          << "\npreemption-url: http://127.0.0.1:1\nname: " << cloud << "\n";
    Environment environment = environment_;
    environment["MUSTER_JOIN_TOKEN"] = token;
    const ProcessResult joined =
        RunProcess({BinDir() + "/muster-worker", "join", Text(endpoints_, "grpc_address"), "--name",
                    cloud, "--data-dir", Data(cloud), "--config", config},
                   environment, absl::Minutes(2));
    ASSERT_EQ(joined.exit_code, 0) << joined.err;
    EXPECT_THAT(joined.out, Not(HasSubstr("  tls-"))) << "the user data lack what a join needs";
    agents_[cloud] = std::make_unique<Subprocess>(
        std::vector<std::string>{BinDir() + "/muster-worker", "--config", config}, environment_,
        dir_ / (cloud + ".log"));
    EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return IsReady(cloud); })) << Log(cloud);
    EXPECT_TRUE(LogHas(cloud, "preemption_source_fails source=" + cloud)) << Log(cloud);
  }
}

}  // namespace
}  // namespace muster::testing
