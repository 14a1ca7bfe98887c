#include "controller/config.h"

#include <gmock/gmock.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "common/os/loopback.h"
#include "controller/engine/engine.h"
#include "controller/policy/archive/archivable_jobs.h"
#include "controller/policy/health/quarantine_rules.h"
#include "controller/policy/limits/fair_share.h"
#include "controller/policy/placement/elastic.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<CommandLine> Parse(std::vector<const char*> args) {
  args.insert(args.begin(), "musterd");
  return ParseCommandLine(static_cast<int>(args.size()), args.data());
}

std::string WriteConfig(const TempDir& dir, const std::string& text) {
  const std::string path = dir / "musterd.yaml";
  std::ofstream(path) << text;
  return path;
}

TEST(ConfigTest, FlagsWinOverTheFile) {
  TempDir dir;
  const std::string file =
      WriteConfig(dir, "data-dir: /from/file\nlost-after: 1m\ninsecure: true\nlisten: 0.0.0.0:1\n");
  ASSERT_OK_AND_ASSIGN(const CommandLine line, Parse({"--config", file.c_str(), "--data-dir",
                                                      "/from/flag", "--suspect-after", "20s"}));
  EXPECT_EQ(line.config.data_dir, "/from/flag");
  EXPECT_EQ(line.config.checkpoint_root, "/from/flag/checkpoints");
  EXPECT_TRUE(line.config.own_checkpoint_root);
  EXPECT_EQ(line.config.lost_after, absl::Minutes(1));
  EXPECT_EQ(line.config.suspect_after, absl::Seconds(20));
  EXPECT_TRUE(line.config.insecure);
  EXPECT_EQ(line.config.listen, "0.0.0.0:1");
}

TEST(ConfigTest, ACheckpointRootThatIsNamedIsNotItsOwn) {
  ASSERT_OK_AND_ASSIGN(const CommandLine line,
                       Parse({"--data-dir", "/x", "--checkpoint-root", "/shared/runs"}));
  EXPECT_EQ(line.config.checkpoint_root, "/shared/runs");
  EXPECT_FALSE(line.config.own_checkpoint_root);
}

TEST(ConfigTest, AnUnknownKeyIsNamed) {
  TempDir dir;
  const std::string file = WriteConfig(dir, "data-dir: /x\nlost-afte: 1m\n");
  EXPECT_THAT(Parse({"--config", file.c_str()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unknown key `lost-afte`")));
}

TEST(ConfigTest, ADuplicateKeyAndBrokenYamlAreRefused) {
  TempDir dir;
  EXPECT_THAT(Parse({"--config", WriteConfig(dir, "listen: a:1\nlisten: b:1\n").c_str()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
  EXPECT_THAT(Parse({"--config", WriteConfig(dir, "a: [").c_str()}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Parse({"--config", WriteConfig(dir, "- a\n").c_str()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("map")));
}

TEST(ConfigTest, AMissingFileIsNotFound) {
  EXPECT_THAT(Parse({"--config", "/does/not/exist", "--data-dir", "/x"}),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(ConfigTest, TheDataFolderIsRequired) {
  EXPECT_THAT(Parse({}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--data-dir")));
}

TEST(ConfigTest, ABadDurationNamesItsFlag) {
  EXPECT_THAT(Parse({"--data-dir", "/x", "--lost-after", "15"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--lost-after")));
}

TEST(ConfigTest, TheThreeLivenessTimesMustBeOrdered) {
  EXPECT_THAT(Parse({"--data-dir", "/x", "--suspect-after", "20s"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--lost-after")));
}

TEST(ConfigTest, WhatThePoliciesWaitForCanBeSet) {
  ASSERT_OK_AND_ASSIGN(const CommandLine line, Parse({"--data-dir",
                                                      "/x",
                                                      "--grow-after",
                                                      "0s",
                                                      "--shrink-after",
                                                      "5m",
                                                      "--restart-cost",
                                                      "20s",
                                                      "--quarantine-after",
                                                      "0",
                                                      "--quarantine-window",
                                                      "2h",
                                                      "--quarantine-first",
                                                      "1m",
                                                      "--quarantine-longest",
                                                      "1h",
                                                      "--fair-share-half-life",
                                                      "12h",
                                                      "--forget-lost-after",
                                                      "0s",
                                                      "--forget-gone-after",
                                                      "48h",
                                                      "--forget-ended-after",
                                                      "48h",
                                                      "--max-ended-jobs",
                                                      "5000"}));
  EXPECT_EQ(line.config.grow_after, absl::ZeroDuration());
  EXPECT_EQ(line.config.shrink_after, absl::Minutes(5));
  EXPECT_EQ(line.config.restart_cost, absl::Seconds(20));
  EXPECT_EQ(line.config.quarantine_after, 0u);
  EXPECT_EQ(line.config.quarantine_window, absl::Hours(2));
  EXPECT_EQ(line.config.quarantine_first, absl::Minutes(1));
  EXPECT_EQ(line.config.quarantine_longest, absl::Hours(1));
  EXPECT_EQ(line.config.fair_share_half_life, absl::Hours(12));
  EXPECT_EQ(line.config.forget_lost_after, absl::ZeroDuration());
  EXPECT_EQ(line.config.forget_gone_after, absl::Hours(48));
  EXPECT_EQ(line.config.forget_ended_after, absl::Hours(48));
  EXPECT_EQ(line.config.max_ended_jobs, 5000u);
  EXPECT_OK(Parse({"--data-dir", "/x", "--forget-gone-after", "0s"}));
  EXPECT_THAT(Parse({"--data-dir", "/x", "--forget-gone-after", "59m"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--forget-gone-after")));
  EXPECT_THAT(Parse({"--data-dir", "/x", "--forget-ended-after", "later"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--forget-ended-after")));
  EXPECT_THAT(Parse({"--data-dir", "/x", "--forget-ended-after", "299s"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--forget-ended-after")));
  EXPECT_THAT(Parse({"--data-dir", "/x", "--max-ended-jobs", "999"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--max-ended-jobs")));
  EXPECT_OK(Parse({"--data-dir", "/x", "--forget-ended-after", "0s", "--max-ended-jobs", "0"}));
  EXPECT_EQ(kLeastKept, absl::Minutes(5));
  EXPECT_OK(Parse({"--data-dir", "/x", "--forget-ended-after", "5m"}));
  EXPECT_THAT(Parse({"--data-dir", "/x", "--quarantine-first", "48h"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--quarantine-longest")));
  EXPECT_THAT(Parse({"--data-dir", "/x", "--grow-after", "soon"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--grow-after")));
}

TEST(ConfigTest, TheDefaultsAreThePolicies) {
  const Config config;
  const ElasticSettings elastic;
  EXPECT_EQ(config.grow_after, elastic.grow_after);
  EXPECT_EQ(config.shrink_after, elastic.shrink_after);
  EXPECT_EQ(config.restart_cost, elastic.restart_cost);
  const QuarantineSettings quarantine;
  EXPECT_EQ(config.quarantine_after, quarantine.incidents);
  EXPECT_EQ(config.quarantine_window, quarantine.window);
  EXPECT_EQ(config.quarantine_first, quarantine.first);
  EXPECT_EQ(config.quarantine_longest, quarantine.longest);
  EXPECT_EQ(config.fair_share_half_life, kUseHalfLife);
  EXPECT_EQ(config.forget_lost_after, EngineOptions().forget_lost_after);
  EXPECT_EQ(config.forget_gone_after, EngineOptions().forget_gone_after);
}

TEST(ConfigTest, BeyondLoopbackIsRefusedWithTheWayOut) {
  struct Port {
    const char* flag;
    std::vector<const char*> way_out;  // that the message names, beside --insecure
  };
  for (const Port& port : std::vector<Port>{
           {"--listen", {"--tls-ca", "--tls-cert", "--tls-key"}},
           {"--worker-listen", {"--tls-ca", "--tls-cert", "--tls-key"}},
           {"--http-listen",
            {"--tls-ca", "--tls-cert", "--tls-key", "--scrape-token-file", "musterd init"}}}) {
    for (const char* address : {"0.0.0.0:7070", "[::]:7070", "10.0.0.1:7070"}) {
      const absl::Status refused = Parse({"--data-dir", "/x", port.flag, address}).status();
      EXPECT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition,
                                    StartsWith(absl::StrCat(port.flag, ": ", address))));
      EXPECT_THAT(std::string(refused.message()),
                  AllOf(HasSubstr("nothing there would be encrypted"), HasSubstr("use 127.0.0.1"),
                        HasSubstr("--insecure if the network itself is trusted")));
      for (const char* flag : port.way_out) {
        EXPECT_THAT(std::string(refused.message()), HasSubstr(flag)) << port.flag;
      }
      ASSERT_OK_AND_ASSIGN(const CommandLine open,
                           Parse({"--data-dir", "/x", port.flag, address, "--insecure"}));
      EXPECT_TRUE(ServesUnencrypted(open.config)) << port.flag;
    }
    EXPECT_OK(Parse({"--data-dir", "/x", port.flag, "127.0.0.1:7070"}));
  }
}

TEST(ConfigTest, WithTlsTheGrpcPortsMayLeaveLoopback) {
  const std::vector<const char*> tls = {
      "--data-dir", "/x",   "--tls-ca", "/ca",          "--tls-cert",      "/cert",
      "--tls-key",  "/key", "--listen", "0.0.0.0:7070", "--worker-listen", "0.0.0.0:7071"};
  ASSERT_OK_AND_ASSIGN(const CommandLine line, Parse(tls));
  EXPECT_EQ(line.config.tls.key, "/key");
  EXPECT_FALSE(ServesUnencrypted(line.config));
  // Metrics want their token besides.
  std::vector<const char*> http = tls;
  http.insert(http.end(), {"--http-listen", "0.0.0.0:7072"});
  EXPECT_THAT(Parse(http), StatusIs(absl::StatusCode::kFailedPrecondition,
                                    AllOf(StartsWith("--http-listen: 0.0.0.0:7072"),
                                          HasSubstr("--scrape-token-file"))));
  std::vector<const char*> guarded = http;
  guarded.insert(guarded.end(), {"--scrape-token-file", "/scrape-token"});
  ASSERT_OK_AND_ASSIGN(const CommandLine safe, Parse(guarded));
  EXPECT_FALSE(ServesUnencrypted(safe.config));
  http.push_back("--insecure");
  ASSERT_OK_AND_ASSIGN(const CommandLine open, Parse(http));
  EXPECT_TRUE(ServesUnencrypted(open.config));
  EXPECT_THAT(Parse({"--data-dir", "/x", "--tls-cert", "/cert", "--tls-key", "/key"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--tls-ca")));
}

TEST(ConfigTest, VersionIsATextToPrint) {
  ASSERT_OK_AND_ASSIGN(const CommandLine line, Parse({"--version"}));
  EXPECT_EQ(line.text, VersionLine("musterd") + "\n");
  ASSERT_OK_AND_ASSIGN(const CommandLine help, Parse({"--help"}));
  EXPECT_THAT(help.text, HasSubstr("--heartbeat-interval"));
}

TEST(ConfigTest, Loopback) {
  for (const char* host : {"127.0.0.1", "127.8.9.1", "::1", "localhost"})
    EXPECT_TRUE(IsLoopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "example.org", "128.0.0.1"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace muster::controller
