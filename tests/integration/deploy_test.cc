// What deploy/ holds works: both daemons start from its config files, find each other and leave on
// SIGTERM; systemd finds nothing wrong with the units.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

constexpr char kSystemdAnalyze[] = "/usr/bin/systemd-analyze";
// A machine that has it installed runs it at its next start, so scripts/setup --tests does not
// bring it: where it is missing its test is skipped, and fails with MUSTER_ALL_TOOLS=1
// (docs/testing.md).
constexpr char kCloudInit[] = "/usr/bin/cloud-init";
constexpr char kAllTools[] = "MUSTER_ALL_TOOLS";
constexpr absl::Duration kStartWait = absl::Seconds(30);

const std::vector<std::string>& Clouds() {
  static const auto* clouds = new std::vector<std::string>{"aws", "gcp", "azure"};
  return *clouds;
}

std::string CloudInitFile(const std::string& cloud) {
  return SourceDir() + "/deploy/cloud-init/" + cloud + ".yaml";
}

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Deploy : public ::testing::Test {
 protected:
  // A copy of a file of deploy/systemd with other folders and ports; its path.
  std::string Copy(const std::string& name,
                   std::vector<std::pair<const std::string, std::string>> changes) {
    const std::string text = ReadAll(SourceDir() + "/deploy/systemd/" + name);
    EXPECT_NE(text, "") << name;
    const std::string path = dir_ / name;
    std::ofstream(path) << absl::StrReplaceAll(text, changes);
    return path;
  }
  // The endpoints that a daemon wrote once it was ready.
  Json WaitForEndpoints(const std::string& folder) {
    Json json;
    EXPECT_TRUE(WaitUntil(kStartWait, [&] {
      json = Json::parse(ReadAll(folder + "/endpoints.json"), nullptr, false);
      return json.is_object();
    })) << folder;
    return json;
  }

  TempDir dir_;
};

TEST_F(Deploy, BothDaemonsStartFromTheirConfigFilesAndLeaveOnSigterm) {
  const std::string controller_dir = dir_ / "controller";
  const std::string worker_dir = dir_ / "worker";
  const std::string controller_config =
      Copy("musterd.yaml",
           {{"/var/lib/muster", dir_.path()}, {":7070", ":0"}, {":7071", ":0"}, {":7072", ":0"}});
  Subprocess controller({BinDir() + "/musterd", "--config", controller_config}, {},
                        dir_ / "musterd.log");
  const Json endpoints = WaitForEndpoints(controller_dir);
  ASSERT_NE(Text(endpoints, "worker_address"), "") << ReadAll(dir_ / "musterd.log");

  const std::string worker_config =
      Copy("muster-worker.yaml", {{"127.0.0.1:7071", Text(endpoints, "worker_address")},
                                  {"/etc/muster/token", controller_dir + "/token"},
                                  {"/var/lib/muster", dir_.path()},
                                  {":7073", ":0"}});
  Subprocess worker({BinDir() + "/muster-worker", "--config", worker_config}, {},
                    dir_ / "muster-worker.log");
  ASSERT_NE(Text(WaitForEndpoints(worker_dir), "metrics_address"), "")
      << ReadAll(dir_ / "muster-worker.log");

  const std::vector<std::string> nodes = {BinDir() + "/muster",
                                          "--addr",
                                          Text(endpoints, "grpc_address"),
                                          "--token-file",
                                          controller_dir + "/token",
                                          "nodes",
                                          "-o",
                                          "json"};
  std::string answer;
  EXPECT_TRUE(WaitUntil(kStartWait, [&] {
    answer = RunProcess(nodes, {}, kStartWait).out;
    return answer.find("\"ready\"") != std::string::npos;
  })) << answer;

  worker.Signal(SIGTERM);
  EXPECT_TRUE(worker.Wait(kStartWait));
  EXPECT_EQ(worker.exit_code(), 0) << ReadAll(dir_ / "muster-worker.log");
  controller.Signal(SIGTERM);
  EXPECT_TRUE(controller.Wait(kStartWait));
  EXPECT_EQ(controller.exit_code(), 0) << ReadAll(dir_ / "musterd.log");
}

// Laid out as packages do: the launcher in bin/, what it becomes in trainer/.
TEST_F(Deploy, AWorkerSaysAtItsStartThatTorchIsMissing) {
  const std::string launcher = BinDir() + "/../launcher/muster-trainer";
  if (!std::filesystem::exists(launcher)) GTEST_SKIP() << "no launcher was built";
  for (const std::string folder : {"bin", "trainer", "no-torch"}) {
    std::filesystem::create_directory(dir_ / folder);
  }
  std::filesystem::copy_file(launcher, dir_ / "bin/muster-trainer");
  std::filesystem::copy_file("/bin/true", dir_ / "trainer/muster-trainer");
  const std::string token = dir_ / "token";
  std::ofstream(token) << std::string(64, 'a');
  std::filesystem::permissions(token, std::filesystem::perms(0600));
  const std::string log = dir_ / "muster-worker.log";
  Subprocess worker(
      {BinDir() + "/muster-worker", "--controller", "127.0.0.1:1", "--token-file", token, "--name",
       "w", "--data-dir", dir_ / "worker", "--trainer", dir_ / "bin/muster-trainer"},
      {{"MUSTER_TORCH", dir_ / "no-torch"}}, log);
  EXPECT_TRUE(WaitUntil(kStartWait, [&] {
    const std::string text = ReadAll(log);
    return text.find("trainer_cannot_run") != std::string::npos &&
           text.find("is needed to train, and was not found") != std::string::npos &&
           text.find("pip install torch==") != std::string::npos;
  })) << ReadAll(log);
  worker.Signal(SIGTERM);
  EXPECT_TRUE(worker.Wait(kStartWait));
  EXPECT_EQ(worker.exit_code(), 0) << ReadAll(log);
}

TEST_F(Deploy, SystemdAcceptsTheUnits) {
  ASSERT_TRUE(std::filesystem::exists(kSystemdAnalyze)) << "scripts/setup --tests";
  for (const std::string name : {"musterd", "muster-worker"}) {
    const std::string unit = Copy(name + ".service", {{"/usr/bin/muster", BinDir() + "/muster"}});
    const ProcessResult result =
        RunProcess({kSystemdAnalyze, "verify", unit}, {}, absl::Seconds(60));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_EQ(result.err, "") << name;
  }
}

// What a unit may do is a figure of systemd's from 0 to 10, lower is better; it may not rise.
TEST_F(Deploy, TheUnitsStayAsHardenedAsTheyAre) {
  ASSERT_TRUE(std::filesystem::exists(kSystemdAnalyze)) << "scripts/setup --tests";
  const std::vector<std::pair<std::string, int>> most_tenths = {{"musterd", 12},
                                                                {"muster-worker", 24}};
  for (const auto& [name, tenths] : most_tenths) {
    const std::string unit = SourceDir() + "/deploy/systemd/" + name + ".service";
    const ProcessResult result =
        RunProcess({kSystemdAnalyze, "security", "--offline=true", "--no-pager",
                    absl::StrCat("--threshold=", tenths), unit},
                   {}, absl::Seconds(60));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, ::testing::HasSubstr("Overall exposure level"));
  }
}

TEST_F(Deploy, CloudInitAcceptsTheUserData) {
  if (!std::filesystem::exists(kCloudInit)) {
    const char* all = ::getenv(kAllTools);
    ASSERT_TRUE(all == nullptr || all[0] == '\0') << "no cloud-init here";
    GTEST_SKIP() << "no cloud-init here";
  }
  for (const std::string& cloud : Clouds()) {
    const ProcessResult result = RunProcess(
        {kCloudInit, "schema", "--config-file", CloudInitFile(cloud)}, {}, absl::Seconds(60));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
}

}  // namespace
}  // namespace muster::testing
