// A job that trains is preempted by one of higher priority: it saves, gives up its slots, waits,
// comes back where it stood, and ends with the result of a run that nobody touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/digits_job.h"
#include "tests/integration/run_record.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(1);
constexpr int kPreemptAfterStep = 60;

// No checkpoint comes by steps: what it comes back to is what it saved when it was preempted.
DigitsJob TheJob() {
  DigitsJob job;
  job.steps = 300;
  job.every_steps = 1000;
  job.width = 16;
  job.image_size = 16;
  job.more = "scheduling: {priority_class: low}\n";
  return job;
}

class Preemption : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(cluster_.Up(2)); }
  void TearDown() override { cluster_.Down(); }

  // Holds both slots until the file "go" is there.
  uint64_t SubmitUrgent() {
    const std::string script =
        absl::StrCat("until [ -e ", cluster_.Path("go"), " ]; do sleep 0.05; done");
    const ProcessResult sent =
        cluster_.Cli({"submit", "-q", "--name", "urgent", "--ranks", "2", "--set",
                      "scheduling.priority_class=high", "--", "sh", "-c", script});
    EXPECT_EQ(sent.exit_code, 0) << sent.err;
    return std::strtoull(sent.out.c_str(), nullptr, 10);
  }
  bool AwaitState(uint64_t job, const std::string& state) {
    return WaitUntil(kPatience, [&] { return cluster_.State(job) == state; });
  }
  void Signal(const std::vector<ProcessId>& processes, int signal) {
    for (const ProcessId& process : processes) EXPECT_EQ(::kill(process.pid, signal), 0);
  }
  // Reason and message of each of the job's events.
  std::vector<std::string> Events(uint64_t job) {
    std::vector<std::string> events;
    const Json show = cluster_.Show(job);
    for (const Json& event : Member(show, "events")) {
      events.push_back(absl::StrCat(Text(event, "reason"), ": ", Text(event, "message")));
    }
    return events;
  }

  Cluster cluster_;
};

TEST_F(Preemption, AJobMakesWayForAnUrgentOneAndComesBackToItsOwnResult) {
  const uint64_t untouched = cluster_.Submit(ToYaml(TheJob()));
  ASSERT_EQ(cluster_.WaitForEnd(untouched), "SUCCEEDED") << cluster_.Show(untouched).dump(1);
  const RunRecord reference = ReadRun(cluster_, untouched);

  // With no restart to spend: to be preempted is free of charge.
  const uint64_t job = cluster_.Submit(ToYaml(TheJob()), {"--set", "restart.max_restarts=0"});
  ASSERT_NO_FATAL_FAILURE(cluster_.WaitForStep(job, kPreemptAfterStep));
  const std::vector<ProcessId> ranks = cluster_.RankProcesses(job);
  ASSERT_EQ(ranks.size(), 2u);
  // A job that is about to end is waited for. This one stands still instead, so that the end that
  // its pace foretold comes and goes.
  Signal(ranks, SIGSTOP);
  const uint64_t urgent = SubmitUrgent();
  ASSERT_TRUE(AwaitState(job, "RECOVERING")) << cluster_.Show(job).dump(1);
  Signal(ranks, SIGCONT);
  ASSERT_TRUE(AwaitState(urgent, "RUNNING")) << cluster_.Show(urgent).dump(1);

  // It has the slots because the other one's processes are gone, and that one waits its turn.
  EXPECT_TRUE(std::none_of(ranks.begin(), ranks.end(), IsAlive));
  EXPECT_EQ(cluster_.State(job), "PENDING");
  EXPECT_THAT(Events(job), Contains(AllOf(HasSubstr("PREEMPTED_BY_JOB"),
                                          HasSubstr(absl::StrCat("job ", urgent)))));

  std::ofstream(cluster_.Path("go")) << "";
  EXPECT_EQ(cluster_.WaitForEnd(urgent), "SUCCEEDED");
  EXPECT_EQ(cluster_.WaitForEnd(job), "SUCCEEDED") << cluster_.Show(job).dump(1);

  const Json show = cluster_.Show(job);
  const std::vector<Json> attempts = AttemptsInOrder(show);
  ASSERT_EQ(attempts.size(), 2u) << show.dump(1);
  EXPECT_EQ(Text(attempts[0], "failure_class"), "PREEMPTED");
  EXPECT_GE(Number(attempts[0], "last_step"), kPreemptAfterStep);
  EXPECT_EQ(Number(attempts[0], "steps_lost"), 0) << show.dump(1);
  EXPECT_GE(Number(attempts[1], "first_step"), kPreemptAfterStep);
  EXPECT_LT(Number(attempts[1], "first_step"), TheJob().steps);
  ExpectResumedFromNewestCheckpoint(show);
  ExpectSameRun(ReadRun(cluster_, job), reference);
}

}  // namespace
}  // namespace muster::testing
