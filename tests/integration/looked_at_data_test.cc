// Data that workers look at before a job is placed, with the real muster-data: a job goes where
// they are, waits with the reason shown where nobody has them, and fails before an attempt when
// they are broken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/hosts.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kNoticed = absl::Seconds(60);

// Whose jobs read a table in `data`.
class DataHosts : public Hosts {
 public:
  void Up() {
    ASSERT_NO_FATAL_FAILURE(Hosts::Up());
    std::filesystem::create_directories(data());
  }
  std::string data() { return cluster().Path("data"); }
  void WriteTable(const std::string& more = "") {
    std::ofstream file(data() + "/train.csv");
    file << "a,b,y\n";
    for (int i = 0; i < 200; ++i) file << i << "," << i % 7 << "," << i % 2 << "\n";
    file << more;
  }
  uint64_t Submit(int ranks = 1) {
    return cluster().Submit(
        absl::StrCat("name: table\nranks: ", ranks,
                     "\ntrain:\n  model: {mlp: {hidden: [8]}}\n  data: {csv: {path: ", data(),
                     ", target: y}}\n  batch_size: 16\n  steps: 20\n"
                     "  optimizer: {name: adamw, lr: 0.003}\n"
                     "placement: {pool: hosts, wait_for_capacity: true}\n"));
  }
  std::string Message(uint64_t job) {
    return Text(Member(cluster().Show(job), "summary"), "message");
  }
  bool Says(uint64_t job, const std::string& text) {
    return WaitUntil(kNoticed, [&] { return Message(job).find(text) != std::string::npos; });
  }
};

TEST(LookedAtData, AJobRunsOnTheWorkerThatHasItsData) {
  DataHosts hosts;
  ASSERT_NO_FATAL_FAILURE(hosts.Up());
  const std::vector<std::string> without = WithoutMount(hosts.data());
  if (without.empty()) GTEST_SKIP() << "no mount namespaces on this machine";
  Cluster& cluster = hosts.cluster();
  hosts.WriteTable();
  hosts.Start("host-2", without);
  const uint64_t job = hosts.Submit(/*ranks=*/2);
  ASSERT_TRUE(hosts.Says(job, "its data are not seen by worker host-2")) << hosts.Message(job);
  EXPECT_THAT(hosts.Message(job), HasSubstr("missing: "));
  EXPECT_THAT(cluster.Cli({"explain", absl::StrCat(job)}).out,
              AllOf(HasSubstr("host-2"), HasSubstr("missing: ")));
  hosts.Start("host-1");
  ASSERT_EQ(cluster.WaitForEnd(job), "SUCCEEDED") << cluster.Show(job).dump(1);
  const Json show = cluster.Show(job);
  const Json& attempts = Member(show, "attempts");
  ASSERT_EQ(attempts.size(), 1u) << show.dump(1);
  for (const Json& rank : Member(attempts[0], "ranks")) EXPECT_EQ(Text(rank, "worker"), "host-1");
}

TEST(LookedAtData, BrokenDataFailAJobBeforeAnAttempt) {
  DataHosts hosts;
  ASSERT_NO_FATAL_FAILURE(hosts.Up());
  Cluster& cluster = hosts.cluster();
  hosts.WriteTable("1,no number,0\n");
  hosts.Start("host-1");
  hosts.Start("host-2");
  const uint64_t job = hosts.Submit();
  ASSERT_EQ(cluster.WaitForEnd(job), "FAILED") << cluster.Show(job).dump(1);
  const Json show = cluster.Show(job);
  EXPECT_THAT(hosts.Message(job),
              AllOf(HasSubstr("DATA_ERROR: its data cannot be used"), HasSubstr("train.csv:202")));
  EXPECT_EQ(Member(show, "attempts").size(), 0u);
  EXPECT_THAT(show.dump(), HasSubstr("DATA_ERROR"));
}

TEST(LookedAtData, AJobWhoseDataComeLaterStartsThen) {
  DataHosts hosts;
  ASSERT_NO_FATAL_FAILURE(hosts.Up());
  Cluster& cluster = hosts.cluster();
  hosts.Start("host-1");
  const uint64_t job = hosts.Submit();
  ASSERT_TRUE(hosts.Says(job, "its data are not seen by worker host-1")) << hosts.Message(job);
  hosts.WriteTable();
  EXPECT_EQ(cluster.WaitForEnd(job), "SUCCEEDED") << cluster.Show(job).dump(1);
}

}  // namespace
}  // namespace muster::testing
