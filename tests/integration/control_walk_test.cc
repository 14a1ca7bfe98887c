// The verbs that people have for jobs and workers, on a real Muster with quick programs as jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

constexpr absl::Duration kPatience = absl::Minutes(1);

class ControlWalk : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(cluster_.Up(2)); }
  void TearDown() override { cluster_.Down(); }

  // Submits `sh -c script` with these flags; the job's id, or that of an array's first one.
  uint64_t Submit(const std::string& script, const Words& flags = {}) {
    Words args = {"submit", "--name", "walk", "-o", "json"};
    args.insert(args.end(), flags.begin(), flags.end());
    for (const char* word : {"--", "sh", "-c"}) args.push_back(word);
    args.push_back(script);
    const ProcessResult result = cluster_.Cli(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const Json answer = Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    return static_cast<uint64_t>(Number(answer, "job_id"));
  }
  std::string UntilFile(const std::string& name) {
    return absl::StrCat("until [ -e ", cluster_.Path(name), " ]; do sleep 0.05; done");
  }
  void Touch(const std::string& name) { std::ofstream(cluster_.Path(name)) << ""; }
  std::string Content(const std::string& name) {
    std::ifstream in(cluster_.Path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Do(const Words& args) {
    const ProcessResult result = cluster_.Cli(args);
    EXPECT_EQ(result.exit_code, 0) << args.front() << ": " << result.err;
  }
  Json Summary(uint64_t job) { return Member(cluster_.Show(job), "summary"); }
  void WaitForState(uint64_t job, const std::string& state, int attempt) {
    Json last;
    EXPECT_TRUE(WaitUntil(kPatience, [&] {
      last = Summary(job);
      return Text(last, "state") == state && Number(last, "attempt") == attempt;
    })) << last.dump(1);
  }
  Words Reasons(uint64_t job) {
    Words reasons;
    const Json show = cluster_.Show(job);
    for (const Json& event : Member(show, "events")) {
      reasons.push_back(Text(event, "reason"));
    }
    return reasons;
  }

  Cluster cluster_;
};

TEST_F(ControlWalk, AJobIsHeldReleasedSuspendedResumedRequeuedAndSucceeds) {
  const uint64_t job = Submit(UntilFile("go"), {"--hold"});
  const std::string id = absl::StrCat(job);
  // What was submitted later has come and gone: the held one was passed over, not overlooked.
  EXPECT_EQ(cluster_.WaitForEnd(Submit("true")), "SUCCEEDED");
  EXPECT_EQ(cluster_.State(job), "PENDING");
  EXPECT_EQ(Number(Summary(job), "attempt"), 0);
  Do({"release", id});
  WaitForState(job, "RUNNING", 1);
  EXPECT_EQ(cluster_.Cli({"hold", id}).exit_code, 6);
  Do({"suspend", id});
  WaitForState(job, "SUSPENDED", 1);
  Do({"suspend", id});
  for (const Json& worker : cluster_.CliJson({"nodes"})) {
    EXPECT_EQ(Number(worker, "slots_used"), 0) << "a suspended job gives its slots back";
  }
  Do({"resume", id});
  WaitForState(job, "RUNNING", 2);
  Do({"requeue", id});
  WaitForState(job, "RUNNING", 3);
  Touch("go");
  EXPECT_EQ(cluster_.WaitForEnd(job), "SUCCEEDED");
  EXPECT_EQ(cluster_.Cli({"requeue", id}).exit_code, 6);
  EXPECT_THAT(Reasons(job),
              ElementsAre("SUBMITTED", "RELEASED", "PLACED", "FIRST_PROGRESS", "SUSPEND_REQUESTED",
                          "SUSPEND_DONE", "RESUMED", "PLACED", "FIRST_PROGRESS", "REQUEUED",
                          "ATTEMPT_CLEARED", "PLACED", "FIRST_PROGRESS", "ALL_RANKS_SUCCEEDED"));
}

TEST_F(ControlWalk, AFailedJobIsRequeuedAndGoesOnFromItsPast) {
  const std::string once =
      absl::StrCat("test -e ", cluster_.Path("fixed"), " || { echo broken >&2; exit 3; }");
  const uint64_t job = Submit(once, {"--set", "restart.max_restarts=0"});
  EXPECT_EQ(cluster_.WaitForEnd(job), "FAILED");
  Touch("fixed");
  Do({"requeue", absl::StrCat(job)});
  EXPECT_EQ(cluster_.WaitForEnd(job), "SUCCEEDED");
  EXPECT_EQ(Member(cluster_.Show(job), "attempts").size(), 2u);
}

TEST_F(ControlWalk, DependentsWaitAndAreCancelledWhenTheyWaitInVain) {
  const uint64_t first = Submit(UntilFile("go"));
  const std::string id = absl::StrCat(first);
  const uint64_t after = Submit("true", {"--after", id});
  const uint64_t in_vain = Submit("true", {"--after", absl::StrCat(id, ":fail")});
  WaitForState(first, "RUNNING", 1);
  EXPECT_EQ(cluster_.State(after), "PENDING");
  Touch("go");
  EXPECT_EQ(cluster_.WaitForEnd(after), "SUCCEEDED");
  EXPECT_EQ(cluster_.WaitForEnd(in_vain), "CANCELLED");
  EXPECT_THAT(Text(Summary(in_vain), "message"), HasSubstr(absl::StrCat("job ", id)));
  EXPECT_EQ(cluster_.Cli({"submit", "--after", "424242", "--", "true"}).exit_code, 3);
}

TEST_F(ControlWalk, AnArrayIsManyJobsThatKnowTheirNumber) {
  const std::string out = cluster_.Path("task");
  const uint64_t first = Submit(
      absl::StrCat("echo $MUSTER_ARRAY_ID > ", out, "-$MUSTER_ARRAY_INDEX"), {"--array", "3-5%1"});
  for (int index = 3; index <= 5; ++index) {
    const std::string task = absl::StrCat(first, "_", index);
    EXPECT_EQ(cluster_.Cli({"wait", task}).exit_code, 0) << task;
    EXPECT_EQ(Content(absl::StrCat("task-", index)), absl::StrCat(first, "\n"));
  }
  const uint64_t held = Submit("true", {"--array", "1-3", "--hold"});
  Do({"cancel", absl::StrCat(held, "_*")});
  EXPECT_EQ(cluster_.Cli({"wait", absl::StrCat(held, "_2")}).exit_code, 11);
}

TEST_F(ControlWalk, ExplainSaysWhatLsSaysAndADryRunSaysWhenAndAtWhatCost) {
  const Words hour = {"--ranks", "2", "--set", "scheduling.expected_run_time=1h"};
  const uint64_t job = Submit(UntilFile("go"), hour);
  WaitForState(job, "RUNNING", 1);
  const uint64_t waiting = Submit("true", hour);
  const std::string id = absl::StrCat(waiting);
  Json outlook;
  EXPECT_TRUE(WaitUntil(kPatience, [&] {
    outlook = Member(cluster_.CliJson({"explain", id}), "outlook");
    return Text(outlook, "reason") == Text(Summary(waiting), "message");
  })) << outlook.dump(1);
  EXPECT_THAT(Text(outlook, "reason"), HasSubstr("needs 2 CPU slots in pool default: 0 of 2 free"));
  const Json blockers = Member(outlook, "blockers");
  ASSERT_EQ(blockers.size(), 1u) << blockers.dump(1);
  EXPECT_EQ(Text(blockers[0], "kind"), "SLOTS");
  EXPECT_EQ(Text(blockers[0], "needed"), "2 CPU slots");
  EXPECT_EQ(Text(blockers[0], "available"), "0 of 2 free on 2 ready workers");
  const Json attempts = Member(cluster_.Show(job), "attempts");
  const double hour_ms = 3'600'000;
  EXPECT_EQ(Number(outlook, "start_ms"), Number(attempts[0], "started_ms") + hour_ms);
  EXPECT_EQ(Number(Member(outlook, "rests_on")[0], "job_id"), static_cast<double>(job));
  EXPECT_EQ(Number(outlook, "slot_hours"), 2);
  EXPECT_THAT(cluster_.Cli({"explain", id}).out, HasSubstr("rests on: job 1 walk ends by"));
  Do({"hold", id});
  outlook = Member(cluster_.CliJson({"explain", id}), "outlook");
  EXPECT_EQ(Text(Member(outlook, "blockers")[0], "kind"), "HELD");
  EXPECT_EQ(Text(outlook, "why_unknown"), "it is held");

  const auto dry_run = [&](const std::string& ranks) {
    return cluster_.Cli({"submit", "--dry-run", "--ranks", ranks, "-o", "json", "--set",
                         "scheduling.expected_run_time=30m", "--", "true"});
  };
  Json answer = Json::parse(dry_run("1").out, nullptr, /*allow_exceptions=*/false);
  EXPECT_THAT(Text(answer, "forecast"), HasSubstr("would wait: needs 1 CPU slot"));
  EXPECT_EQ(Number(Member(answer, "outlook"), "slot_hours"), 0.5);
  EXPECT_EQ(Number(Member(answer, "outlook"), "start_ms"),
            Number(attempts[0], "started_ms") + hour_ms);
  const ProcessResult refused = dry_run("3");
  EXPECT_EQ(refused.exit_code, 7);
  EXPECT_THAT(refused.err, HasSubstr("could give at most 2 ranks"));
  Touch("go");
  EXPECT_EQ(cluster_.WaitForEnd(job), "SUCCEEDED");
  EXPECT_TRUE(WaitUntil(kPatience, [&] {
    answer = Json::parse(dry_run("2").out, nullptr, /*allow_exceptions=*/false);
    return Text(answer, "forecast").find("would start now: 2 ranks on") == 0;
  })) << answer.dump(1);
  EXPECT_EQ(Member(Member(answer, "outlook"), "places").size(), 2u);
}

TEST_F(ControlWalk, AJobThatRunsAsLongAsItMayFailsWithThatSaid) {
  const uint64_t job = Submit("sleep 600", {"--max-run-time", "1s"});
  EXPECT_EQ(cluster_.WaitForEnd(job), "FAILED");
  EXPECT_EQ(Text(Summary(job), "failure_class"), "TIME_LIMIT");
  EXPECT_EQ(Member(cluster_.Show(job), "attempts").size(), 1u);
}

TEST_F(ControlWalk, ADrainedWorkerEmptiesFreeOfCharge) {
  const uint64_t job = Submit(UntilFile("go"));
  WaitForState(job, "RUNNING", 1);
  const std::string worker = Member(Summary(job), "workers")[0].get<std::string>();
  Do({"nodes", "drain", worker, "--reason", "a fan"});
  WaitForState(job, "RUNNING", 2);
  EXPECT_NE(Member(Summary(job), "workers")[0].get<std::string>(), worker);
  for (const Json& node : cluster_.CliJson({"nodes"})) {
    if (Text(node, "name") != worker) continue;
    EXPECT_EQ(Text(node, "state"), "drained");
  }
  Do({"nodes", "undrain", worker});
  Touch("go");
  EXPECT_EQ(cluster_.WaitForEnd(job), "SUCCEEDED");
}

TEST_F(ControlWalk, TheShellExampleReportsSavesAndGoesOnFromWhatItSaved) {
  ASSERT_EQ(::access("/usr/bin/socat", X_OK), 0) << "socat is not installed";
  const uint64_t job =
      Submit(absl::StrCat("sh ", SourceDir(), "/examples/report.sh && test -n \"$MUSTER_RESUME\""),
             {"--set", "restart.max_restarts=1", "--set", "restart.backoff=100ms"});
  EXPECT_EQ(cluster_.WaitForEnd(job), "SUCCEEDED");
  const ProcessResult logs = cluster_.Cli({"logs", absl::StrCat(job)});
  // The first attempt counts to 3, offers it and fails; the second goes on from there.
  EXPECT_THAT(logs.out, HasSubstr("\"committed\""));
  EXPECT_THAT(logs.out, HasSubstr("\"ack\""));
  EXPECT_EQ(Number(Summary(job), "attempt"), 2);
  EXPECT_EQ(Number(Summary(job), "step"), 6) << Summary(job).dump(1);
}

}  // namespace
}  // namespace muster::testing
