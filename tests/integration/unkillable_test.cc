// A rank that SIGKILL does not end, on a real Muster: its job's cancel ends all the same, its
// worker gets nothing new, and is fit again when the process is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/cluster.h"
#include "tests/support/held_process.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

// A rank is given up 60 s after its SIGKILL.
constexpr absl::Duration kGivenUp = absl::Seconds(90);
constexpr absl::Duration kPatience = absl::Seconds(30);

class Unkillable : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(cluster_.Up(2)); }

  uint64_t Submit(const std::string& program, const std::string& argument = "") {
    std::vector<std::string> args = {"submit", "--name", "held", "-o", "json", "--", program};
    if (!argument.empty()) args.push_back(argument);
    const ProcessResult result = cluster_.Cli(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const Json answer = Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    return static_cast<uint64_t>(Number(answer, "job_id"));
  }
  Json Node(const std::string& name) {
    for (const Json& node : cluster_.CliJson({"nodes"})) {
      if (Text(node, "name") == name) return node;
    }
    return Json::object();
  }
  std::string WorkerOf(uint64_t job) {
    const Json show = cluster_.Show(job);
    const Json& workers = Member(Member(show, "summary"), "workers");
    return workers.empty() ? "" : workers[0].get<std::string>();
  }

  Cluster cluster_;
  HeldProcess held_;  // first to go
};

TEST_F(Unkillable, ItsCancelEndsAndItsWorkerIsSetAsideUntilItIsGone) {
  const uint64_t job = Submit("sleep", "1000");
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return cluster_.State(job) == "RUNNING"; }));
  const std::vector<ProcessId> ranks = cluster_.RankProcesses(job);
  ASSERT_EQ(ranks.size(), 1u);
  const std::string worker = WorkerOf(job);
  ASSERT_TRUE(held_.Hold(ranks[0].pid)) << "this test must be allowed to trace its own processes";
  ASSERT_EQ(cluster_.Cli({"cancel", absl::StrCat(job)}).exit_code, 0);
  EXPECT_EQ(cluster_.WaitForEnd(job, kGivenUp), "CANCELLED");
  EXPECT_TRUE(IsAlive(ranks[0]));
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return Text(Node(worker), "state") == "draining"; }))
      << Node(worker).dump(1);
  const Json show = cluster_.Show(job);
  EXPECT_THAT(Member(show, "attempts").dump(), HasSubstr("\"state\":\"unkillable\"")) << "why";
  // What comes now goes to the other one.
  const uint64_t next = Submit("true");
  EXPECT_EQ(cluster_.WaitForEnd(next, kPatience), "SUCCEEDED");
  EXPECT_NE(WorkerOf(next), worker);
  held_.Release();
  EXPECT_TRUE(WaitUntil(kPatience, [&] {
    return Text(Node(worker), "state") == "ready" && Number(Node(worker), "slots_used") == 0;
  })) << Node(worker).dump(1);
  EXPECT_FALSE(IsAlive(ranks[0]));
}

}  // namespace
}  // namespace muster::testing
