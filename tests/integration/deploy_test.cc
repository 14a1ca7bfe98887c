// What deploy/ holds works: both daemons start from its config files, find each other and leave on
// SIGTERM; systemd finds nothing wrong with the units.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

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
constexpr absl::Duration kStartWait = absl::Seconds(30);

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

TEST_F(Deploy, SystemdAcceptsTheUnits) {
  if (!std::filesystem::exists(kSystemdAnalyze)) GTEST_SKIP() << "no systemd-analyze here";
  for (const std::string name : {"musterd", "muster-worker"}) {
    const std::string unit = Copy(name + ".service", {{"/usr/local/bin", BinDir()}});
    const ProcessResult result =
        RunProcess({kSystemdAnalyze, "verify", unit}, {}, absl::Seconds(60));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_EQ(result.err, "") << name;
  }
}

}  // namespace
}  // namespace muster::testing
