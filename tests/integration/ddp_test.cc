// A PyTorch DDP script that knows Muster only by its environment and a small Python client, as a
// command job: one of its two ranks is killed, and the run ends with the weights of one that nobody
// touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 8000;
constexpr int kReportEvery = 50;
constexpr int kCheckpointEvery = 500;

std::string Python() {
  const char* venv = ::getenv("MUSTER_VENV");
  return (venv == nullptr ? SourceDir() + "/.venv" : std::string(venv)) + "/bin/python";
}

uint64_t SubmitDdp(Cluster& cluster, const std::string& name) {
  const std::string folder = SourceDir() + "/examples";
  const ProcessResult sent =
      cluster.Cli({"submit", "-q", "--name", name, "--ranks", "2", "--workdir", folder, "--env",
                   "PYTHONDONTWRITEBYTECODE=1", "--", Python(), "ddp_train.py", "--steps",
                   absl::StrCat(kSteps), "--report-every", absl::StrCat(kReportEvery),
                   "--checkpoint-every", absl::StrCat(kCheckpointEvery)});
  EXPECT_EQ(sent.exit_code, 0) << sent.err;
  return std::strtoull(sent.out.c_str(), nullptr, 10);
}

std::string DoneLine(Cluster& cluster, uint64_t job) {
  const std::string logs = cluster.Cli({"logs", absl::StrCat(job)}).out;
  const size_t begin = logs.find("done: weights");
  EXPECT_NE(begin, std::string::npos) << logs;
  return begin == std::string::npos ? "" : logs.substr(begin, logs.find('\n', begin) - begin);
}

void AwaitCheckpoint(Cluster& cluster, uint64_t job) {
  ASSERT_TRUE(WaitUntil(absl::Minutes(3), [&] {
    const Json show = cluster.Show(job);
    for (const Json& checkpoint : Member(show, "checkpoints")) {
      const std::string state = Text(checkpoint, "state");
      if (state == "COMMITTED" || state == "VERIFIED") return true;
    }
    return false;
  }));
}

// Each report of rank 0 once, none missing.
void ExpectEveryReportOnce(Cluster& cluster, uint64_t job) {
  const ProcessResult csv = cluster.Cli({"metrics", absl::StrCat(job), "-o", "csv"});
  std::multiset<int> steps;
  size_t begin = csv.out.find('\n') + 1;
  while (begin < csv.out.size()) {
    const size_t end = csv.out.find('\n', begin);
    const std::string line = csv.out.substr(begin, end - begin);
    if (line.rfind("loss,", 0) == 0) steps.insert(std::atoi(line.c_str() + 5));
    begin = end == std::string::npos ? csv.out.size() : end + 1;
  }
  for (int step = kReportEvery; step <= kSteps; step += kReportEvery) {
    EXPECT_EQ(steps.count(step), 1u) << "step " << step;
  }
  EXPECT_EQ(steps.size(), static_cast<size_t>(kSteps / kReportEvery));
}

TEST(Ddp, AKilledRankIsResumedAndEndsWithTheSameWeights) {
  const ProcessResult torch =
      RunProcess({Python(), "-c", "import torch.distributed"}, {}, absl::Minutes(2));
  ASSERT_EQ(torch.exit_code, 0) << "no PyTorch in " << Python()
                                << " (scripts/setup makes it): " << torch.err;
  Cluster cluster;
  ASSERT_NO_FATAL_FAILURE(cluster.Up(2));
  const uint64_t untouched = SubmitDdp(cluster, "untouched");
  ASSERT_EQ(cluster.WaitForEnd(untouched), "SUCCEEDED");

  const uint64_t job = SubmitDdp(cluster, "killed");
  ASSERT_NO_FATAL_FAILURE(AwaitCheckpoint(cluster, job));
  const std::vector<ProcessId> ranks = cluster.RankProcesses(job);
  ASSERT_EQ(ranks.size(), 2u) << "it has ended before its rank could be killed";
  ASSERT_EQ(::kill(ranks[1].pid, SIGKILL), 0);
  ASSERT_EQ(cluster.WaitForEnd(job), "SUCCEEDED");

  const Json show = cluster.Show(job);
  const Json& attempts = Member(show, "attempts");
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(Text(attempts[0], "failure_class"), "RANK_KILLED");
  EXPECT_GE(Number(attempts[1], "first_step"), kCheckpointEvery);
  EXPECT_EQ(Number(Member(show, "summary"), "restarts"), 1);
  const std::string logs = cluster.Cli({"logs", absl::StrCat(job), "--attempt", "2"}).out;
  const std::string resumed =
      absl::StrCat("resumes at step ", static_cast<int64_t>(Number(attempts[1], "first_step")));
  EXPECT_THAT(logs, HasSubstr("rank 0 " + resumed));
  EXPECT_THAT(logs, HasSubstr("rank 1 " + resumed));
  EXPECT_EQ(DoneLine(cluster, job), DoneLine(cluster, untouched));
  ExpectEveryReportOnce(cluster, job);
}

}  // namespace
}  // namespace muster::testing
