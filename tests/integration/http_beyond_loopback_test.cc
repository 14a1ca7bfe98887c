// A real musterd whose HTTP port is beyond loopback: it is encrypted with musterd's certificate,
// metrics and discovery want the scrape token, and what the page asks for wants a person's.
// Debian's Prometheus reads all of it with deploy/prometheus/prometheus.yml, whose lines for TLS
// are switched on here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "re2/re2.h"
#include "tests/support/tls_musterd.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPrometheus[] = "/usr/bin/prometheus";
constexpr char kPromtool[] = "/usr/bin/promtool";

class HttpBeyondLoopbackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(musterd_.Start({"--http-listen", "0.0.0.0:0"}));
    address_ = absl::StrCat("127.0.0.1:", musterd_.Port("http"));
    scrape_token_ = Line(musterd_.Folder() + "/scrape-token");
    ASSERT_NE(scrape_token_, "");
  }

  std::string Line(const std::string& path) {
    return std::string(absl::StripAsciiWhitespace(musterd_.Read(path)));
  }
  ProcessResult Curl(std::vector<std::string> words) {
    words.insert(words.begin(), {"curl", "-sS", "-m", "20"});
    return RunProcess(words, musterd_.environment(), absl::Minutes(1));
  }
  // The status code of the path by TLS, with the token if there is one; what came is in body_.
  std::string CodeOf(const std::string& path, const std::string& token = "") {
    std::vector<std::string> words = {"--cacert", musterd_.Folder() + "/tls/ca.pem", "-w",
                                      "\n%{http_code}", absl::StrCat("https://", address_, path)};
    if (!token.empty()) words.insert(words.end(), {"-H", "Authorization: Bearer " + token});
    const ProcessResult got = Curl(words);
    const size_t last = got.out.rfind('\n');
    EXPECT_NE(last, std::string::npos) << path << ": " << got.err;
    if (last == std::string::npos) return "";
    body_ = got.out.substr(0, last);
    return got.out.substr(last + 1);
  }

  // prometheus.yml as a person makes it who follows its first comment: each line that stands as a
  // comment for TLS is switched on, beside the files that musterd made. Gives its path.
  std::string WithTlsLines() {
    static const LazyRE2 kSwitchedOff = {"^( *)# ((?:scheme|tls_config|authorization): .*)$"};
    std::vector<std::string> lines =
        absl::StrSplit(musterd_.Read(SourceDir() + "/deploy/prometheus/prometheus.yml"), '\n');
    for (std::string& line : lines) {
      if (RE2::Replace(&line, *kSwitchedOff, "\\1\\2")) ++switched_on_;
      line = absl::StrReplaceAll(line, {{"http://127.0.0.1:7072/sd", "https://127.0.0.1:7072/sd"}});
      line = absl::StrReplaceAll(line, {{"127.0.0.1:7072", address_},
                                        {"interval: 5s", "interval: 1s"},
                                        {"timeout: 4s", "timeout: 1s"}});
    }
    std::string text;
    for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
    std::filesystem::create_directories(musterd_.Path("prometheus"));
    std::filesystem::create_symlink(musterd_.Folder(), musterd_.Path("prometheus/muster"));
    std::filesystem::create_symlink(SourceDir() + "/deploy/prometheus/rules",
                                    musterd_.Path("prometheus/rules"));
    std::ofstream(musterd_.Path("prometheus/prometheus.yml")) << text;
    return musterd_.Path("prometheus/prometheus.yml");
  }

  TlsMusterd musterd_;
  std::string address_;  // HOST:PORT of the HTTP port
  std::string scrape_token_;
  std::string body_;
  int switched_on_ = 0;  // lines
};

TEST_F(HttpBeyondLoopbackTest, EachPathWantsWhatItIsForByTlsAlone) {
  for (const std::string path : {"/metrics", "/sd"}) {
    EXPECT_EQ(CodeOf(path), "401") << path;
    EXPECT_THAT(body_, Not(HasSubstr("muster_controller"))) << path;
    EXPECT_EQ(CodeOf(path, std::string(64, '0')), "401") << path;
    EXPECT_EQ(CodeOf(path, Line(musterd_.Folder() + "/token")), "401") << path;
    EXPECT_EQ(CodeOf(path, scrape_token_), "200") << path;
  }
  EXPECT_EQ(CodeOf("/metrics", scrape_token_), "200");
  EXPECT_THAT(body_, HasSubstr("muster_controller_"));
  EXPECT_EQ(CodeOf("/healthz"), "200");
  EXPECT_EQ(body_, "ok\n");
  EXPECT_EQ(CodeOf("/"), "200");
  EXPECT_THAT(body_, HasSubstr("<html"));

  // The page's questions: a person's token, which the scrape token is not.
  EXPECT_EQ(CodeOf("/api/v1/jobs"), "401");
  EXPECT_EQ(CodeOf("/api/v1/jobs", scrape_token_), "401");
  EXPECT_EQ(CodeOf("/api/v1/jobs", Line(musterd_.Folder() + "/token")), "200");

  // Nothing is answered in plain text, with or without a token.
  for (const std::string path : {"/metrics", "/sd", "/healthz", "/", "/api/v1/jobs"}) {
    const ProcessResult plain = Curl(
        {"-H", "Authorization: Bearer " + scrape_token_, absl::StrCat("http://", address_, path)});
    EXPECT_NE(plain.exit_code, 0) << path;
    EXPECT_EQ(plain.out, "") << path;
  }
  // And by TLS to nobody who takes it for another.
  EXPECT_EQ(Curl({absl::StrCat("https://", address_, "/healthz")}).exit_code, 60) << "no CA";
}

TEST_F(HttpBeyondLoopbackTest, PrometheusReadsItByTheLinesOfItsConfiguration) {
  ASSERT_TRUE(std::filesystem::exists(kPrometheus)) << "scripts/setup installs it";
  // A machine that joined, whose port is beyond loopback as well.
  const std::string token =
      Text(musterd_.CliJson({"join-token", "create", "--for", "1h"}), "token");
  Environment environment = musterd_.environment();
  environment["MUSTER_JOIN_TOKEN"] = token;
  const ProcessResult joined =
      RunProcess({BinDir() + "/muster-worker", "join", musterd_.Address("grpc"), "--name", "node-1",
                  "--data-dir", musterd_.Path("node-1.data"), "--http-listen", "0.0.0.0:0"},
                 environment, absl::Minutes(2));
  ASSERT_EQ(joined.exit_code, 0) << joined.err;
  Subprocess agent({BinDir() + "/muster-worker", "--config",
                    musterd_.Path("node-1.data/worker.yaml"), "--slots", "1"},
                   musterd_.environment(), musterd_.Path("node-1.log"));

  const std::string config = WithTlsLines();
  EXPECT_EQ(switched_on_, 9) << "of the three jobs, and of the discovery of two";
  EXPECT_THAT(musterd_.Read(config), Not(HasSubstr("# tls_config")));
  const ProcessResult checked =
      RunProcess({kPromtool, "check", "config", config}, {}, absl::Minutes(1));
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;

  Subprocess prometheus(
      {kPrometheus, "--config.file=" + config, "--storage.tsdb.path=" + musterd_.Path("tsdb"),
       "--web.listen-address=127.0.0.1:0"},
      musterd_.environment(), musterd_.Path("prometheus.log"));
  const std::string mark = "msg=\"Listening on\" address=";
  std::string log;
  ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] {
    log = musterd_.Log("prometheus");
    const size_t at = log.find(mark);
    return at != std::string::npos && log.find('\n', at) != std::string::npos;
  })) << log;
  const size_t begin = log.find(mark) + mark.size();
  const std::string served = log.substr(begin, log.find_first_of(" \n", begin) - begin);
  const auto value_of = [&](const std::string& query) {
    const ProcessResult got = Curl({"-G", "--data-urlencode", "query=" + query,
                                    absl::StrCat("http://", served, "/api/v1/query")});
    const Json answer = Json::parse(got.out, nullptr, false);
    const Json& result = Member(Member(answer, "data"), "result");
    return result.empty() ? "" : result[0]["value"][1].get<std::string>();
  };
  for (const std::string query :
       {"up{job=\"musterd\"} == 1", "up{job=\"muster-workers\", worker=\"node-1\"} == 1",
        "muster_controller_insecure == 0", "muster_worker_slots{worker=\"node-1\"} == 1"}) {
    EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] { return value_of(query) != ""; }))
        << query << "\n"
        << musterd_.Log("prometheus") << musterd_.Log("node-1");
  }
  prometheus.Signal(SIGTERM);
  prometheus.Wait(absl::Seconds(30));
  agent.Signal(SIGTERM);
  agent.Wait(absl::Seconds(30));
}

// Nothing starts beyond loopback without TLS, but where somebody takes that on themselves: then the
// log and a metric say so.
class WithoutTlsTest : public ::testing::Test {
 protected:
  ProcessResult Run(const std::string& program, std::vector<std::string> words) {
    words.insert(words.begin(), BinDir() + "/" + program);
    return RunProcess(words, environment_, absl::Minutes(1));
  }
  std::string Read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TempDir dir_;
  const Environment environment_ = {{"HOME", dir_.path()}, {"PATH", "/usr/bin:/bin"}};
};

TEST_F(WithoutTlsTest, BeyondLoopbackNothingStartsAndOneLineSaysWhatToDo) {
  for (const std::string flag : {"--listen", "--worker-listen", "--http-listen"}) {
    const ProcessResult refused =
        Run("musterd", {"--data-dir", dir_ / "controller", flag, "0.0.0.0:0"});
    EXPECT_EQ(refused.exit_code, 2) << flag;
    EXPECT_THAT(refused.err, AllOf(HasSubstr("musterd: " + flag + ": 0.0.0.0:0"),
                                   HasSubstr("--tls-cert"), HasSubstr("--insecure")));
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  }
  const std::vector<std::string> agent = {"--data-dir", dir_ / "agent", "--name",
                                          "node-1",     "--token-file", dir_ / "token"};
  for (const auto& [flag, more] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"--controller: 10.0.0.1:7071", {"--controller", "10.0.0.1:7071"}},
           {"--http-listen: 0.0.0.0:0",
            {"--controller", "127.0.0.1:7071", "--http-listen", "0.0.0.0:0"}}}) {
    std::vector<std::string> words = agent;
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult refused = Run("muster-worker", words);
    EXPECT_EQ(refused.exit_code, 2) << flag;
    EXPECT_THAT(refused.err, AllOf(HasSubstr("muster-worker: " + flag), HasSubstr("--insecure")));
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "controller")) << "nothing was made";
  EXPECT_FALSE(std::filesystem::exists(dir_ / "agent"));
}

TEST_F(WithoutTlsTest, WhatIsInsecureSaysSo) {
  Subprocess musterd(
      {BinDir() + "/musterd", "--data-dir", dir_ / "controller", "--listen", "0.0.0.0:0",
       "--worker-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--insecure"},
      environment_, dir_ / "musterd.log");
  Json endpoints;
  ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] {
    endpoints = Json::parse(Read(dir_ / "controller/endpoints.json"), nullptr, false);
    return endpoints.is_object();
  })) << Read(dir_ / "musterd.log");
  const ProcessResult page =
      RunProcess({"curl", "-sS", "-m", "20",
                  absl::StrCat("http://", Text(endpoints, "http_address"), "/metrics")},
                 environment_, absl::Minutes(1));
  EXPECT_THAT(page.out, HasSubstr("\nmuster_controller_insecure 1\n"));
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] {
    return Read(dir_ / "musterd.log").find("event=insecure") != std::string::npos;
  }));
  EXPECT_THAT(Read(dir_ / "musterd.log"),
              AllOf(HasSubstr("level=warning program=musterd event=insecure"),
                    HasSubstr("serving beyond loopback without TLS")));
  Subprocess agent({BinDir() + "/muster-worker", "--data-dir", dir_ / "agent", "--name", "node-1",
                    "--controller", Text(endpoints, "worker_address"), "--token-file",
                    dir_ / "controller/token", "--http-listen", "0.0.0.0:0", "--insecure"},
                   environment_, dir_ / "agent.log");
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] {
    return Read(dir_ / "agent.log").find("event=insecure") != std::string::npos;
  })) << Read(dir_ / "agent.log");
  EXPECT_THAT(Read(dir_ / "agent.log"),
              HasSubstr("level=warning program=muster-worker event=insecure"));
  agent.Signal(SIGTERM);
  EXPECT_TRUE(agent.Wait(absl::Seconds(30)));
  musterd.Signal(SIGTERM);
  EXPECT_TRUE(musterd.Wait(absl::Seconds(30)));
}

}  // namespace
}  // namespace muster::testing
