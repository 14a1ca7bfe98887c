// A gang of four ranks on two hosts, as two agents of this machine under two addresses play them:
// shared memory inside a host, Gloo between them. A killed rank of either host is restarted, and
// the run ends with the bits of one that nobody touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/digits_job.h"
#include "tests/integration/run_record.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 300;
constexpr int kKillAfterStep = 60;

// A Muster whose pool `hosts` has two agents of two slots each.
class TwoHosts {
 public:
  void Up() {
    ASSERT_NO_FATAL_FAILURE(cluster_.Up(1));
    const std::string controller = Text(cluster_.Daemon("worker-1"), "grpc_address");
    ASSERT_NE(controller, "") << cluster_.CliJson({"local", "status"}).dump(1);
    for (const std::string number : {"1", "2"}) {
      const std::string name = "host-" + number;
      agents_.push_back(std::make_unique<Subprocess>(
          std::vector<std::string>{BinDir() + "/muster-worker", "--controller", controller,
                                   "--token-file", cluster_.Path("local/controller/token"),
                                   "--name", name, "--data-dir", cluster_.Path(name), "--slots",
                                   "2", "--pool", "hosts", "--http-listen", "127.0.0.1:0",
                                   "--advertise-address", "127.0.0." + number},
          cluster_.environment(), cluster_.Path(name + ".log")));
    }
  }

  // Submits the job of four ranks.
  uint64_t Submit() {
    DigitsJob job;
    job.steps = kSteps;
    job.ranks = 4;
    job.more = "placement: {pool: hosts, wait_for_capacity: true}\n";
    return cluster_.Submit(ToYaml(job));
  }

  // Ends the agents first, as the cluster's end asks for.
  ~TwoHosts() {
    for (const auto& agent : agents_) {
      agent->Signal(SIGTERM);
      agent->Wait(absl::Seconds(30));
    }
  }

  Cluster& cluster() { return cluster_; }

 private:
  Cluster cluster_;
  std::vector<std::unique_ptr<Subprocess>> agents_;
};

TEST(TwoHosts, AKilledRankOfEitherIsRestartedAndEndsWithTheSameBits) {
  TwoHosts hosts;
  ASSERT_NO_FATAL_FAILURE(hosts.Up());
  Cluster& cluster = hosts.cluster();
  const uint64_t untouched = hosts.Submit();
  ASSERT_EQ(cluster.WaitForEnd(untouched), "SUCCEEDED") << cluster.Show(untouched).dump(1);
  EXPECT_THAT(cluster.Cli({"logs", absl::StrCat(untouched)}).out, HasSubstr("two_level 0-1,2-3"));
  const RunRecord reference = ReadRun(cluster, untouched);

  for (const size_t victim : {size_t{1}, size_t{2}}) {
    const uint64_t job = hosts.Submit();
    ASSERT_NO_FATAL_FAILURE(cluster.WaitForStep(job, kKillAfterStep));
    const std::vector<ProcessId> ranks = cluster.RankProcesses(job);
    ASSERT_EQ(ranks.size(), 4u);
    ASSERT_EQ(::kill(ranks[victim].pid, SIGKILL), 0);
    ASSERT_EQ(cluster.WaitForEnd(job), "SUCCEEDED") << cluster.Show(job).dump(1);
    const Json show = cluster.Show(job);
    ASSERT_EQ(AttemptsInOrder(show).size(), 2u) << show.dump(1);
    EXPECT_EQ(Text(AttemptsInOrder(show).front(), "failure_class"), "RANK_KILLED");
    for (const ProcessId& rank : ranks) EXPECT_FALSE(IsAlive(rank)) << "orphan: " << rank.pid;
    ExpectResumedFromNewestCheckpoint(show);
    ExpectSameRun(ReadRun(cluster, job), reference);
  }
}

}  // namespace
}  // namespace muster::testing
