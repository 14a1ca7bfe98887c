// Kill -9 of any process: the job still succeeds, resumes from its newest checkpoint, leaves no
// process behind, loses and doubles no metric, and ends with the weights, bit for bit, of a run
// that nobody touched.
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/integration/digits_job.h"
#include "tests/integration/run_record.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

// Long enough that a controller which is away for kOutage misses a good part of the run.
constexpr int kSteps = 500;
constexpr int kKillAfterStep = 90;
constexpr absl::Duration kOutage = absl::Seconds(10);
constexpr absl::Duration kDeathWait = absl::Seconds(20);

DigitsJob TheJob() {
  DigitsJob job;
  job.steps = kSteps;
  job.every_steps = 40;
  job.width = 16;
  job.image_size = 16;
  return job;
}

// The metrics page of a daemon, as in `metrics_url`.
std::string Fetch(const std::string& url) {
  const size_t path = url.find('/', url.find("://") + 3);
  httplib::Client client(url.substr(0, path));
  const auto answer = client.Get(url.substr(path));
  return answer ? answer->body : "";
}

// The step that the ranks of this agent last reported, as its own metrics page tells.
double RankStep(const std::string& metrics_url) {
  double step = -1;
  for (absl::string_view line : absl::StrSplit(Fetch(metrics_url), '\n')) {
    double value = 0;
    if (absl::StartsWith(line, "muster_rank_step{") &&
        absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) {
      step = std::max(step, value);
    }
  }
  return step;
}

class Faults : public ::testing::Test {
 protected:
  // The run that nobody touches, made once for all tests of this program.
  static const RunRecord& Reference() {
    static const RunRecord* const record = [] {
      Cluster cluster;
      cluster.Up(2);
      const uint64_t job = cluster.Submit(ToYaml(TheJob()));
      EXPECT_EQ(cluster.WaitForEnd(job), "SUCCEEDED") << cluster.Show(job).dump(1);
      return new RunRecord(ReadRun(cluster, job));
    }();
    return *record;
  }

  void SetUp() override {
    Reference();
    ASSERT_FALSE(HasFailure()) << "the undisturbed run itself failed";
    ASSERT_NO_FATAL_FAILURE(cluster_.Up(2));
    job_ = cluster_.Submit(ToYaml(TheJob()));
    ASSERT_GT(job_, 0u);
    ASSERT_NO_FATAL_FAILURE(cluster_.WaitForStep(job_, kKillAfterStep));
    ranks_ = cluster_.RankProcesses(job_);
    ASSERT_EQ(ranks_.size(), 2u);
    for (const ProcessId& rank : ranks_) ASSERT_TRUE(IsAlive(rank));
    // Else looking there for what is left would prove nothing.
    for (const char* worker : {"worker-1", "worker-2"})
      ASSERT_FALSE(ChildrenOf(cluster_.DaemonProcess(worker).pid).empty());
  }

  // Of a job that has ended: neither the ranks that were seen, nor one of another attempt, nor
  // anything that one of them left behind, which would be a child of its agent by now.
  void ExpectNobodyLeft() {
    for (const ProcessId& rank : ranks_) EXPECT_FALSE(IsAlive(rank)) << "orphan: " << rank.pid;
    std::vector<std::string> left;
    EXPECT_TRUE(WaitUntil(
        kDeathWait,
        [&] {
          left.clear();
          for (const char* worker : {"worker-1", "worker-2"}) {
            const std::string ranks = cluster_.Path(absl::StrCat("local/", worker, "/ranks/job-"));
            for (const auto& found :
                 {ProcessesMentioning(ranks), ChildrenOf(cluster_.DaemonProcess(worker).pid)}) {
              left.insert(left.end(), found.begin(), found.end());
            }
          }
          return left.empty();
        }))
        << "orphans:\n"
        << absl::StrJoin(left, "\n");
  }

  // The old attempt's processes are gone as soon as a new one runs.
  void ExpectRestartedOnce() {
    EXPECT_EQ(cluster_.WaitForEnd(job_), "SUCCEEDED") << cluster_.Show(job_).dump(1);
    ExpectNobodyLeft();
    const Json show = cluster_.Show(job_);
    EXPECT_EQ(AttemptsInOrder(show).size(), 2u) << show.dump(1);
    EXPECT_EQ(Number(Member(show, "summary"), "restarts"), 1);
    ExpectResumedFromNewestCheckpoint(show);
    ExpectSameRun(ReadRun(cluster_, job_), Reference());
  }

  Cluster cluster_;
  uint64_t job_ = 0;
  std::vector<ProcessId> ranks_;
};

TEST_F(Faults, ARankIsKilled) {
  ASSERT_EQ(::kill(ranks_[1].pid, SIGKILL), 0);
  ExpectRestartedOnce();
  const Json first = AttemptsInOrder(cluster_.Show(job_)).front();
  EXPECT_EQ(Text(first, "failure_class"), "RANK_KILLED") << first.dump(1);
}

TEST_F(Faults, RankZeroIsKilled) {
  ASSERT_EQ(::kill(ranks_[0].pid, SIGKILL), 0);
  ExpectRestartedOnce();
}

TEST_F(Faults, AnAgentIsKilled) {
  const ProcessId agent = cluster_.DaemonProcess("worker-2");
  ASSERT_TRUE(IsAlive(agent));
  ASSERT_EQ(::kill(agent.pid, SIGKILL), 0);
  // Its rank dies with it, whatever else happens.
  EXPECT_TRUE(WaitUntil(kDeathWait,
                        [&] { return std::count_if(ranks_.begin(), ranks_.end(), IsAlive) < 2; }));
  ExpectRestartedOnce();
  EXPECT_GE(Number(cluster_.Daemon("worker-2"), "restarts"), 1);
}

TEST_F(Faults, TheControllerIsKilledAndStaysAwayForTenSeconds) {
  const ProcessId supervisor = cluster_.Supervisor();
  const ProcessId controller = cluster_.DaemonProcess("musterd");
  const std::string metrics_url = Text(cluster_.Daemon("worker-1"), "metrics_url");
  ASSERT_TRUE(IsAlive(supervisor));
  ASSERT_TRUE(IsAlive(controller));
  // A stopped supervisor cannot start the controller again before the outage is over.
  ASSERT_EQ(::kill(supervisor.pid, SIGSTOP), 0);
  ASSERT_EQ(::kill(controller.pid, SIGKILL), 0);
  const absl::Time back = absl::Now() + kOutage;
  ASSERT_TRUE(WaitUntil(kDeathWait, [&] { return !IsAlive(controller); }));
  const double step_at_death = RankStep(metrics_url);
  EXPECT_GT(step_at_death, 0);

  // Nobody to report to, and the ranks train on.
  EXPECT_TRUE(WaitUntil(kOutage, [&] { return RankStep(metrics_url) > step_at_death; }));
  EXPECT_EQ(cluster_.Cli({"ls"}).exit_code, 5);
  absl::SleepFor(back - absl::Now());  // The outage's length is the fault itself.
  ASSERT_EQ(::kill(supervisor.pid, SIGCONT), 0);

  EXPECT_EQ(cluster_.WaitForEnd(job_), "SUCCEEDED") << cluster_.Show(job_).dump(1);
  const Json show = cluster_.Show(job_);
  // Adopted: the same attempt went on, no step was lost.
  EXPECT_EQ(AttemptsInOrder(show).size(), 1u) << show.dump(1);
  EXPECT_EQ(Number(Member(show, "summary"), "restarts"), 0);
  EXPECT_GE(Number(cluster_.Daemon("musterd"), "restarts"), 1);
  ExpectNobodyLeft();
  ExpectSameRun(ReadRun(cluster_, job_), Reference());
}

TEST_F(Faults, EverythingDiesAtOnce) {
  // As a power cut would do it: supervisor, controller, both agents, and with the agents their
  // ranks.
  std::vector<ProcessId> victims = {cluster_.Supervisor(), cluster_.DaemonProcess("musterd"),
                                    cluster_.DaemonProcess("worker-1"),
                                    cluster_.DaemonProcess("worker-2")};
  for (const ProcessId& victim : victims) ASSERT_EQ(::kill(victim.pid, SIGKILL), 0);
  victims.insert(victims.end(), ranks_.begin(), ranks_.end());
  ASSERT_TRUE(
      WaitUntil(kDeathWait, [&] { return std::none_of(victims.begin(), victims.end(), IsAlive); }));
  ASSERT_NO_FATAL_FAILURE(cluster_.Up(2));
  ExpectRestartedOnce();
}

}  // namespace
}  // namespace muster::testing
