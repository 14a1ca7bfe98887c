// Checkpoint roots that are not where a worker looks for them: a worker without the mount takes
// none of the jobs, and says why; a root that goes away in the middle holds its job up, costs it
// nothing, and condemns nothing. And two Musters that share one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/digits_job.h"
#include "tests/integration/hosts.h"
#include "tests/integration/run_record.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 300;
constexpr int kActAfterStep = 60;
// An agent looks at its roots every 5 s.
constexpr absl::Duration kNoticed = absl::Seconds(40);

// Whose jobs save to `shared`.
class RootHosts : public Hosts {
 public:
  void Up() {
    ASSERT_NO_FATAL_FAILURE(Hosts::Up());
    std::filesystem::create_directories(shared());
  }

  // A job that may not be restarted at its own charge.
  uint64_t Submit() {
    DigitsJob job;
    job.steps = kSteps;
    job.checkpoint_url = shared();
    job.more = "placement: {pool: hosts, wait_for_capacity: true}\n";
    std::string yaml = ToYaml(job);
    const std::string restart = "restart: {backoff: 100ms";
    yaml.insert(yaml.find(restart) + restart.size(), ", max_restarts: 0");
    return cluster().Submit(yaml);
  }

  std::string shared() { return cluster().Path("shared"); }
  std::string marker() { return shared() + "/MUSTER_ROOT"; }

  // What `muster nodes` has against the worker's roots; empty: nothing.
  std::string WhyUnseen(const std::string& name) {
    for (const Json& worker : cluster().CliJson({"nodes"})) {
      if (Text(worker, "name") != name) continue;
      const Json& roots = Member(worker, "unseen_roots");
      if (roots.is_array() && !roots.empty()) return Text(roots[0], "message");
    }
    return "";
  }
  void ExpectNothingCondemned(const Json& show) {
    for (const Json& checkpoint : Member(show, "checkpoints")) {
      EXPECT_NE(Text(checkpoint, "state"), "CORRUPT") << checkpoint.dump();
    }
  }
};

std::string Message(const Json& show) { return Text(Member(show, "summary"), "message"); }

TEST(Roots, AWorkerWithoutTheMountTakesNoneOfItsJobsAndCondemnsNothing) {
  RootHosts hosts;
  ASSERT_NO_FATAL_FAILURE(hosts.Up());
  const std::vector<std::string> without = WithoutMount(hosts.shared());
  if (without.empty()) GTEST_SKIP() << "no mount namespaces on this machine";
  Cluster& cluster = hosts.cluster();
  hosts.Start("host-1");
  const uint64_t job = hosts.Submit();
  ASSERT_NO_FATAL_FAILURE(cluster.WaitForStep(job, kActAfterStep));
  EXPECT_TRUE(std::filesystem::exists(hosts.marker()));
  hosts.Start("host-2", without);
  ASSERT_TRUE(WaitUntil(kNoticed, [&] { return hosts.WhyUnseen("host-2") != ""; }));
  EXPECT_THAT(hosts.WhyUnseen("host-2"), HasSubstr("is it mounted?"));
  EXPECT_EQ(hosts.WhyUnseen("host-1"), "");

  // It saves and leaves, and the other worker is free.
  ASSERT_EQ(cluster.Cli({"nodes", "drain", "host-1"}).exit_code, 0);
  ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] { return cluster.State(job) == "PENDING"; }))
      << cluster.Show(job).dump(1);
  ASSERT_TRUE(WaitUntil(kNoticed, [&] {
    return Message(cluster.Show(job)).find("is not seen by worker host-2") != std::string::npos;
  })) << Message(cluster.Show(job));
  EXPECT_THAT(cluster.Cli({"explain", absl::StrCat(job)}).out, HasSubstr("host-2"));
  hosts.ExpectNothingCondemned(cluster.Show(job));

  ASSERT_EQ(cluster.Cli({"nodes", "undrain", "host-1"}).exit_code, 0);
  EXPECT_EQ(cluster.WaitForEnd(job), "SUCCEEDED") << cluster.Show(job).dump(1);
  const Json show = cluster.Show(job);
  EXPECT_EQ(AttemptsInOrder(show).size(), 2u);
  ExpectResumedFromNewestCheckpoint(show);
  hosts.ExpectNothingCondemned(show);
}

TEST(Roots, AMarkerThatIsGoneForAWhileHoldsTheJobUpAndCostsNothing) {
  RootHosts hosts;
  ASSERT_NO_FATAL_FAILURE(hosts.Up());
  Cluster& cluster = hosts.cluster();
  hosts.Start("host-1");
  const uint64_t untouched = hosts.Submit();
  ASSERT_EQ(cluster.WaitForEnd(untouched), "SUCCEEDED") << cluster.Show(untouched).dump(1);
  const RunRecord reference = ReadRun(cluster, untouched);

  const uint64_t job = hosts.Submit();
  ASSERT_NO_FATAL_FAILURE(cluster.WaitForStep(job, kActAfterStep));
  std::filesystem::rename(hosts.marker(), cluster.Path("kept"));
  ASSERT_TRUE(WaitUntil(kNoticed, [&] { return hosts.WhyUnseen("host-1") != ""; }));
  // A rank dies meanwhile: at nobody's charge, though the job may not be restarted.
  const std::vector<ProcessId> ranks = cluster.RankProcesses(job);
  ASSERT_EQ(ranks.size(), 2u);
  ASSERT_EQ(::kill(ranks[1].pid, SIGKILL), 0);
  ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] {
    const Json show = cluster.Show(job);
    return Text(Member(show, "summary"), "state") == "PENDING" &&
           Message(show).find("is not seen by worker host-1") != std::string::npos;
  })) << cluster.Show(job).dump(1);
  EXPECT_EQ(Text(AttemptsInOrder(cluster.Show(job)).front(), "failure_class"),
            "STORAGE_UNAVAILABLE");
  hosts.ExpectNothingCondemned(cluster.Show(job));

  std::filesystem::rename(cluster.Path("kept"), hosts.marker());
  EXPECT_EQ(cluster.WaitForEnd(job), "SUCCEEDED") << cluster.Show(job).dump(1);
  const Json show = cluster.Show(job);
  EXPECT_EQ(AttemptsInOrder(show).size(), 2u) << show.dump(1);
  ExpectResumedFromNewestCheckpoint(show);
  hosts.ExpectNothingCondemned(show);
  ExpectSameRun(ReadRun(cluster, job), reference);
}

TEST(Roots, ASaveWaitsForItsRootAndTheRunGoesOn) {
  RootHosts hosts;
  ASSERT_NO_FATAL_FAILURE(hosts.Up());
  Cluster& cluster = hosts.cluster();
  hosts.Start("host-1");
  const uint64_t job = hosts.Submit();
  ASSERT_NO_FATAL_FAILURE(cluster.WaitForStep(job, kActAfterStep));
  std::filesystem::rename(hosts.marker(), cluster.Path("kept"));
  // It trains to its end, and waits there with its last save.
  ASSERT_TRUE(WaitUntil(absl::Minutes(3), [&] { return cluster.Step(job) >= kSteps; }))
      << cluster.Show(job).dump(1);
  EXPECT_EQ(cluster.State(job), "RUNNING");
  std::filesystem::rename(cluster.Path("kept"), hosts.marker());
  EXPECT_EQ(cluster.WaitForEnd(job), "SUCCEEDED") << cluster.Show(job).dump(1);
  const Json show = cluster.Show(job);
  EXPECT_EQ(AttemptsInOrder(show).size(), 1u);
  hosts.ExpectNothingCondemned(show);
}

// Both call it job 1, under one name.
TEST(Roots, TwoMustersUnderOneRootKeepTheirCheckpointsApart) {
  Cluster first;
  Cluster second;
  ASSERT_NO_FATAL_FAILURE(first.Up(1));
  ASSERT_NO_FATAL_FAILURE(second.Up(1));
  std::filesystem::create_directories(first.Path("shared"));
  DigitsJob job;
  job.steps = kSteps;
  job.ranks = 1;
  job.checkpoint_url = first.Path("shared");
  const uint64_t id = first.Submit(ToYaml(job));
  ASSERT_EQ(first.WaitForEnd(id), "SUCCEEDED") << first.Show(id).dump(1);
  const RunRecord reference = ReadRun(first, id);

  ASSERT_EQ(second.Submit(ToYaml(job)), id);
  ASSERT_NO_FATAL_FAILURE(second.WaitForStep(id, kActAfterStep));
  const std::vector<ProcessId> ranks = second.RankProcesses(id);
  ASSERT_EQ(ranks.size(), 1u);
  ASSERT_EQ(::kill(ranks[0].pid, SIGKILL), 0);
  ASSERT_EQ(second.WaitForEnd(id), "SUCCEEDED") << second.Show(id).dump(1);
  const Json show = second.Show(id);
  EXPECT_EQ(AttemptsInOrder(show).size(), 2u) << show.dump(1);
  ExpectResumedFromNewestCheckpoint(show);
  ExpectSameRun(ReadRun(second, id), reference);
  ExpectSameRun(ReadRun(first, id), reference);
}

}  // namespace
}  // namespace muster::testing
