// Debian's own Prometheus, with the configuration of deploy/, scrapes a running Muster: it finds
// the workers through musterd's service discovery, and its query API gives back what the job
// reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/integration/digits_job.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

constexpr char kPrometheus[] = "/usr/bin/prometheus";
constexpr char kPromtool[] = "/usr/bin/promtool";
constexpr absl::Duration kScrapeWait = absl::Minutes(1);

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// "http://HOST:PORT/path" -> "HOST:PORT".
std::string HostPort(const std::string& url) {
  const size_t begin = url.find("://") + 3;
  return url.substr(begin, url.find('/', begin) - begin);
}

class Prometheus : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(kPrometheus)) << "scripts/setup installs it";
    ASSERT_NO_FATAL_FAILURE(cluster_.Up(2));
    controller_ = HostPort(Text(cluster_.Daemon("musterd"), "metrics_url"));
    DigitsJob job;
    job.steps = 3000;  // It must still run while it is looked at.
    job.every_steps = 100;
    job_ = cluster_.Submit(ToYaml(job));
    ASSERT_GT(job_, 0u);
    ASSERT_NO_FATAL_FAILURE(cluster_.WaitForStep(job_, 10));
  }

  // Starts Prometheus on a free port, which its log tells.
  void StartPrometheus() {
    const std::string config =
        absl::StrReplaceAll(ReadAll(SourceDir() + "/deploy/prometheus/prometheus.yml"),
                            {{"127.0.0.1:7072", controller_}, {"5s", "1s"}, {"4s", "1s"}});
    std::ofstream(cluster_.Path("prometheus.yml")) << config;
    const std::string log = cluster_.Path("prometheus.log");
    prometheus_ = std::make_unique<Subprocess>(
        std::vector<std::string>{kPrometheus, "--config.file=" + cluster_.Path("prometheus.yml"),
                                 "--storage.tsdb.path=" + cluster_.Path("tsdb"),
                                 "--web.listen-address=127.0.0.1:0"},
        cluster_.environment(), log);
    const std::string mark = "msg=\"Listening on\" address=";
    std::string text;
    ASSERT_TRUE(WaitUntil(kScrapeWait, [&] {
      text = ReadAll(log);
      const size_t at = text.find(mark);
      return at != std::string::npos && text.find('\n', at) != std::string::npos;
    })) << text;
    const size_t begin = text.find(mark) + mark.size();
    address_ = text.substr(begin, text.find_first_of(" \n", begin) - begin);
  }

  // The answer's list of {metric, value}; empty when there is none yet.
  Json Query(const std::string& expression) {
    httplib::Client client("http://" + address_);
    const auto answer =
        client.Get("/api/v1/query", httplib::Params{{"query", expression}}, httplib::Headers{});
    const Json json = Json::parse(answer ? answer->body : "", nullptr, false);
    return Member(Member(json, "data"), "result");
  }
  // The value of the first series of `expression` once there is one.
  double WaitForValue(const std::string& expression) {
    Json result;
    EXPECT_TRUE(WaitUntil(kScrapeWait, [&] { return !(result = Query(expression)).empty(); }))
        << expression;
    if (result.empty()) return -1;
    return std::stod(result[0]["value"][1].get<std::string>());
  }

  Cluster cluster_;
  std::string controller_;
  uint64_t job_ = 0;
  std::unique_ptr<Subprocess> prometheus_;
  std::string address_;
};

TEST_F(Prometheus, ScrapesTheJobAndFindsTheWorkers) {
  ASSERT_NO_FATAL_FAILURE(StartPrometheus());
  EXPECT_EQ(WaitForValue("count(up{job=\"muster-workers\"} == 1) == 2"), 2);
  EXPECT_EQ(WaitForValue("up{job=\"musterd\"}"), 1);

  const std::string job = absl::StrCat("{job_id=\"", job_, "\"}");
  EXPECT_GT(WaitForValue("muster_job_loss" + job), 0);
  EXPECT_GT(WaitForValue("muster_job_samples_per_second" + job), 0);
  EXPECT_GT(WaitForValue("muster_job_learning_rate" + job), 0);
  EXPECT_GT(WaitForValue("muster_job_memory_bytes" + job), 1 << 20);
  EXPECT_GE(WaitForValue("muster_job_memory_peak_bytes" + job), 1 << 20);
  EXPECT_GE(WaitForValue("muster_job_step" + job), 10);
  EXPECT_EQ(WaitForValue("muster_job_restarts_total" + job), 0);
  EXPECT_EQ(WaitForValue("count(muster_rank_samples_per_second" + job + ")"), 2)
      << "one series a rank";

  // What Prometheus holds of one step is what the job reported at it.
  Json loss, step;
  double at_step = -1, reported = -2;
  EXPECT_TRUE(WaitUntil(kScrapeWait, [&] {
    step = Query("muster_job_step" + job);
    loss = Query("muster_job_loss" + job);
    if (step.empty() || loss.empty()) return false;
    const double value = std::stod(loss[0]["value"][1].get<std::string>());
    const Json points = cluster_.CliJson({"metrics", absl::StrCat(job_)});
    for (const Json& point : points.is_array() ? points : Member(points, "points")) {
      if (Text(point, "name") == "loss" &&
          std::abs(Number(point, "value") - value) <= 1e-9 * std::abs(value)) {
        at_step = Number(point, "step");
        reported = value;
      }
    }
    return at_step >= 0;
  })) << "no report of the job has the loss that Prometheus holds";
  EXPECT_GT(reported, 0);

  // The job's series go once it has ended and the grace is over; here it ends by a cancel.
  EXPECT_EQ(cluster_.Cli({"cancel", absl::StrCat(job_)}).exit_code, 0);
  EXPECT_EQ(cluster_.WaitForEnd(job_), "CANCELLED");
}

TEST_F(Prometheus, PromtoolFindsNothingToSayAboutTheMetrics) {
  for (const std::string& name : {std::string("musterd"), std::string("worker-1")}) {
    httplib::Client client("http://" + HostPort(Text(cluster_.Daemon(name), "metrics_url")));
    const auto answer = client.Get("/metrics");
    ASSERT_TRUE(answer) << name;
    ASSERT_EQ(answer->status, 200) << name;
    const std::string page = cluster_.Path(name + ".prom");
    std::ofstream(page) << answer->body;
    const ProcessResult checked =
        RunProcess({"/bin/sh", "-c", absl::StrCat(kPromtool, " check metrics < ", page)}, {},
                   absl::Seconds(30));
    EXPECT_EQ(checked.exit_code, 0) << name << "\n" << checked.out << checked.err;
    EXPECT_EQ(checked.out + checked.err, "") << name;
  }
}

TEST(PrometheusConfig, IsValid) {
  const ProcessResult checked =
      RunProcess({kPromtool, "check", "config", SourceDir() + "/deploy/prometheus/prometheus.yml"},
                 {}, absl::Seconds(30));
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;
}

}  // namespace
}  // namespace muster::testing
