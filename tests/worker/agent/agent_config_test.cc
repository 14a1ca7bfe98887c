#include "worker/agent/agent_config.h"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<AgentCommandLine> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "muster-worker");
  return ParseAgentCommandLine(static_cast<int>(arguments.size()), arguments.data());
}

std::vector<const char*> Minimal(std::vector<const char*> more = {}) {
  std::vector<const char*> all = {
      "--controller", "127.0.0.1:7071", "--token-file", "/t", "--data-dir", "/d", "--name", "w1"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(AgentConfig, TakesEveryFlag) {
  ASSERT_OK_AND_ASSIGN(const AgentCommandLine line,
                       Parse(Minimal({"--slots",
                                      "3",
                                      "--pool",
                                      "gold",
                                      "--label",
                                      "zone=a",
                                      "--label",
                                      "k=v=w",
                                      "--advertise-address",
                                      "127.0.0.2",
                                      "--http-listen",
                                      "127.0.0.1:9",
                                      "--container-runtime",
                                      "podman",
                                      "--container-options=--userns=keep-id",
                                      "--container-options=--volume=/data:/data:ro",
                                      "--trainer",
                                      "/x",
                                      "--stop-grace",
                                      "15s",
                                      "--preemption-source",
                                      "aws",
                                      "--preemption-url",
                                      "http://127.0.0.1:1",
                                      "--spool-max-bytes",
                                      "32MiB"})));
  const AgentConfig& config = line.config;
  EXPECT_EQ(config.controller, "127.0.0.1:7071");
  EXPECT_EQ(config.slots, 3u);
  EXPECT_EQ(config.pool, "gold");
  EXPECT_EQ(config.labels, (std::map<std::string, std::string>{{"zone", "a"}, {"k", "v=w"}}));
  EXPECT_EQ(config.container_runtime, "podman");
  EXPECT_THAT(config.container_options,
              ::testing::ElementsAre("--userns=keep-id", "--volume=/data:/data:ro"));
  EXPECT_EQ(config.trainer, "/x");
  EXPECT_EQ(config.stop_grace, absl::Seconds(15));
  EXPECT_EQ(config.spool_max_bytes, 32u << 20);
  EXPECT_EQ(config.preemption_source, "aws");
  EXPECT_EQ(config.preemption_url, "http://127.0.0.1:1");
}

TEST(AgentConfig, FindsTheTrainerBesideItself) {
  ASSERT_OK_AND_ASSIGN(const AgentCommandLine line, Parse(Minimal()));
  EXPECT_THAT(line.config.trainer, ::testing::EndsWith("/muster-trainer"));
}

TEST(AgentConfig, ReadsAFileAndFlagsWin) {
  TempDir dir;
  const std::string path = dir / "worker.yaml";
  std::ofstream(path)
      << "controller: 127.0.0.1:1\ntoken-file: /t\ndata-dir: /d\nname: from-file\nslots: 2\n"
         "label: {zone: a, rack: r1}\n";
  ASSERT_OK_AND_ASSIGN(const AgentCommandLine line,
                       Parse({"--config", path.c_str(), "--name", "from-flag"}));
  EXPECT_EQ(line.config.name, "from-flag");
  EXPECT_EQ(line.config.slots, 2u);
  EXPECT_EQ(line.config.labels.at("rack"), "r1");
  std::ofstream(path) << "controller: 127.0.0.1:1\ntoken-file: /t\ndata-dir: /d\nname: w\n"
                         "container-runtime: podman\n"
                         "container-options: [--runtime=runc, --ulimit=nofile=1024:1024]\n";
  ASSERT_OK_AND_ASSIGN(const AgentCommandLine site, Parse({"--config", path.c_str()}));
  EXPECT_EQ(site.config.container_runtime, "podman");
  EXPECT_THAT(site.config.container_options,
              ::testing::ElementsAre("--runtime=runc", "--ulimit=nofile=1024:1024"));
  std::ofstream(path) << "controler: x\n";
  EXPECT_THAT(Parse({"--config", path.c_str()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("controler")));
  EXPECT_THAT(Parse({"--config", "/no/such/file"}), StatusIs(absl::StatusCode::kNotFound));
}

TEST(AgentConfig, EachBadValueIsNamed) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases = {
      {{"--slots", "0"}, "--slots"},
      {{"--pool", "Not A Name"}, "--pool"},
      {{"--label", "novalue"}, "--label"},
      {{"--stop-grace", "soon"}, "--stop-grace"},
      {{"--stop-grace", "2h"}, "--stop-grace"},
      {{"--spool-max-bytes", "1KiB"}, "--spool-max-bytes"},
      {{"--http-listen", "nowhere"}, "--http-listen"},
      {{"--container-runtime", "docker"}, "--container-runtime"},
      {{"--container-options=--ulimit=nofile=9"}, "needs --container-runtime"},
      {{"--container-runtime", "podman", "--container-options=--"}, "is no option"},
      {{"--container-runtime", "podman", "--container-options=image"}, "is no option"},
      {{"--preemption-source", "ec2"}, "--preemption-source"},
      {{"--preemption-url", "http://127.0.0.1"}, "--preemption-source aws"},
      {{"--preemption-source", "gcp", "--preemption-url", "metadata"}, "--preemption-url"},
      {{"--nonsense"}, "nonsense"},
  };
  for (const auto& [flags, what] : cases) {
    EXPECT_THAT(Parse(Minimal(flags)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  }
  EXPECT_THAT(Parse({"--controller", "127.0.0.1:1"}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(AgentConfig, BeyondLoopbackIsRefusedWithTheWayOut) {
  EXPECT_THAT(Parse(Minimal({"--http-listen", "0.0.0.0:1"})),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(StartsWith("--http-listen: 0.0.0.0:1"),
                             HasSubstr("nothing there would be encrypted"),
                             HasSubstr("--http-cert and --scrape-token-file"),
                             HasSubstr("muster-worker join"),
                             HasSubstr("--insecure if the network itself is trusted"))));
  EXPECT_OK(Parse(Minimal({"--http-listen", "0.0.0.0:1", "--insecure"})));
  const auto to = [](const char* controller, std::vector<const char*> more) {
    std::vector<const char*> flags = {"--controller", controller, "--token-file", "/t",
                                      "--data-dir",   "/d",       "--name",       "w1"};
    flags.insert(flags.end(), more.begin(), more.end());
    return Parse(flags);
  };
  EXPECT_THAT(to("10.0.0.1:7071", {}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(StartsWith("--controller: 10.0.0.1:7071"),
                             HasSubstr("nothing there would be encrypted"),
                             HasSubstr("--tls-ca, --tls-cert and --tls-key"),
                             HasSubstr("--insecure if the network itself is trusted"))));
  EXPECT_OK(to("10.0.0.1:7071", {"--insecure"}));
  EXPECT_OK(to("127.0.0.1:7071", {}));
}

TEST(AgentConfig, ACertificateReplacesTheTokenAndMayLeaveLoopback) {
  const auto with = [](std::vector<const char*> more) {
    std::vector<const char*> flags = {"--controller", "10.0.0.1:7071", "--data-dir",
                                      "/d",           "--name",        "w1"};
    flags.insert(flags.end(), more.begin(), more.end());
    return Parse(flags);
  };
  const auto config = with({"--tls-ca", "/ca", "--tls-cert", "/cert", "--tls-key", "/key"});
  ASSERT_OK(config);
  EXPECT_EQ(config->config.tls.cert, "/cert");
  EXPECT_THAT(with({"--tls-ca", "/ca"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--tls-cert")));
  EXPECT_THAT(with({"--token-file", "/t"}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--tls-ca")));
  EXPECT_THAT(with({"--insecure"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--token-file")));
}

TEST(AgentConfig, VersionAndHelpArePrinted) {
  ASSERT_OK_AND_ASSIGN(const AgentCommandLine version, Parse({"--version"}));
  EXPECT_THAT(version.text, HasSubstr("muster-worker 0."));
  ASSERT_OK_AND_ASSIGN(const AgentCommandLine help, Parse({"--help"}));
  EXPECT_THAT(help.text, HasSubstr("--stop-grace"));
}

}  // namespace
}  // namespace muster::worker
