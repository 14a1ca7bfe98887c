// No metric of any rank is stored twice or lost, and no line of its logs, whoever is killed: a
// rank, an agent, the controller. Counted in the rows of metrics.db themselves.
#include "tests/integration/raw_rows.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/digits_job.h"
#include "tests/integration/run_record.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr int kReportEvery = 5;   // of digits_job.h
constexpr int kLinesBefore = 50;  // a rank prints so many before anybody is killed

class RawRowsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(cluster_.Up(2)); }

  void Kill(const ProcessId& victim) {
    ASSERT_TRUE(IsAlive(victim));
    ASSERT_EQ(::kill(victim.pid, SIGKILL), 0);
  }
  // Another controller is there, and answers.
  void AwaitNextController(const ProcessId& dead) {
    ASSERT_TRUE(WaitUntil(kPatience, [&] {
      return !IsAlive(dead) && cluster_.Cli({"ls"}).exit_code == 0 &&
             cluster_.DaemonProcess("musterd").pid != dead.pid;
    }));
  }
  // The job has begun so many attempts, and the newest one stands `steps` beyond its beginning.
  void AwaitAttempt(uint64_t job, size_t attempts, int steps) {
    Json show;
    ASSERT_TRUE(WaitUntil(kPatience, [&] {
      show = cluster_.Show(job);
      const std::vector<Json> begun = AttemptsInOrder(show);
      return begun.size() >= attempts && Text(Member(show, "summary"), "state") == "RUNNING" &&
             Number(begun.back(), "last_step") >= Number(begun.back(), "first_step") + steps;
    })) << show.dump(1);
  }
  // Everything has come in by then: the agents spool, and say so before they leave.
  RawRows ReadRows(uint64_t job) {
    cluster_.Down();
    return ReadRawRows(cluster_.Path("local/controller/metrics.db"), job);
  }

  Cluster cluster_;
};

TEST_F(RawRowsTest, EachMetricOfEachRankIsThereOnceThroughKillsOfEverybody) {
  DigitsJob spec;
  spec.steps = 600;
  spec.every_steps = 40;
  spec.width = 16;
  spec.image_size = 16;
  const uint64_t job = cluster_.Submit(ToYaml(spec));
  ASSERT_NO_FATAL_FAILURE(AwaitAttempt(job, 1, 90));
  Kill(cluster_.RankProcesses(job)[1]);
  ASSERT_NO_FATAL_FAILURE(AwaitAttempt(job, 2, 60));
  Kill(cluster_.DaemonProcess("worker-2"));
  ASSERT_NO_FATAL_FAILURE(AwaitAttempt(job, 3, 60));
  const ProcessId controller = cluster_.DaemonProcess("musterd");
  Kill(controller);
  ASSERT_NO_FATAL_FAILURE(AwaitNextController(controller));
  ASSERT_NO_FATAL_FAILURE(AwaitAttempt(job, 3, 90));
  Kill(cluster_.RankProcesses(job)[0]);
  ASSERT_EQ(cluster_.WaitForEnd(job), "SUCCEEDED") << cluster_.Show(job).dump(1);

  const std::vector<Json> attempts = AttemptsInOrder(cluster_.Show(job));
  ASSERT_EQ(attempts.size(), 4u);
  const RawRows rows = ReadRows(job);
  ExpectEachRecordOnce(rows);
  size_t points = 0;
  for (size_t i = 0; i < attempts.size(); ++i) {
    const auto first = static_cast<int64_t>(Number(attempts[i], "first_step"));
    const auto end = i + 1 < attempts.size()
                         ? static_cast<int64_t>(Number(attempts[i + 1], "first_step"))
                         : spec.steps;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const RankLife life{static_cast<uint32_t>(i + 1), 1, rank};
      ASSERT_EQ(rows.points.count(life), 1u) << "attempt " << i + 1 << ", rank " << rank;
      std::vector<int64_t> steps;
      for (const PointRow& row : rows.points.at(life)) {
        const auto found = row.steps.find("step_seconds");
        if (found == row.steps.end()) continue;
        steps.insert(steps.end(), found->second.begin(), found->second.end());
      }
      points += steps.size();
      // Of what counts, every report is there; of what was done again, nothing is mixed up.
      EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
      for (int64_t step = first / kReportEvery * kReportEvery + kReportEvery; step <= end;
           step += kReportEvery) {
        EXPECT_EQ(std::count(steps.begin(), steps.end(), step), 1)
            << "attempt " << i + 1 << ", rank " << rank << ", step " << step;
      }
    }
  }
  std::cout << "[ rows     ] " << points << " reports of " << rows.points.size()
            << " lives of ranks, each once" << std::endl;
}

class RawLogsTest : public RawRowsTest {
 protected:
  // Each rank prints numbered lines to both streams and counts them in a file of its own, until the
  // file "go" is there.
  uint64_t SubmitPrinter() {
    const std::string script =
        absl::StrCat("i=0; me=a$MUSTER_ATTEMPT.r$RANK; while [ ! -e ", cluster_.Path("go"),
                     " ]; do i=$((i+1)); echo $me says $i; echo $me moans $i >&2; echo $i >> ",
                     cluster_.Path("count."), "$me; sleep 0.01; done");
    const ProcessResult sent = cluster_.Cli({"submit", "-q", "--name", "printer", "--ranks", "2",
                                             "--set", "restart.max_restarts=20", "--set",
                                             "restart.backoff=100ms", "--", "sh", "-c", script});
    EXPECT_EQ(sent.exit_code, 0) << sent.err;
    return std::strtoull(sent.out.c_str(), nullptr, 10);
  }
  int Counted(uint32_t attempt, uint32_t rank) {
    std::ifstream in(cluster_.Path(absl::StrCat("count.a", attempt, ".r", rank)));
    int lines = 0;
    for (std::string line; std::getline(in, line);) ++lines;
    return lines;
  }
  void AwaitLines(uint32_t attempt, int lines) {
    ASSERT_TRUE(WaitUntil(
        kPatience, [&] { return Counted(attempt, 0) >= lines && Counted(attempt, 1) >= lines; }))
        << "attempt " << attempt << " printed " << Counted(attempt, 0) << " and "
        << Counted(attempt, 1);
  }
  // What the rank must have printed when it counted so many lines; one more may be on its way.
  void ExpectLines(const std::string& text, const std::string& start, int counted, bool ended) {
    std::string wanted;
    for (int i = 1; i <= counted; ++i) absl::StrAppend(&wanted, start, " ", i, "\n");
    const std::string one_more = absl::StrCat(wanted, start, " ", counted + 1, "\n");
    EXPECT_TRUE(text == wanted || (!ended && text == one_more))
        << start << ": " << std::count(text.begin(), text.end(), '\n') << " lines of " << counted;
  }
};

TEST_F(RawLogsTest, EachLineOfEachRankIsThereOnceThroughKillsOfEverybody) {
  const uint64_t job = SubmitPrinter();
  ASSERT_NO_FATAL_FAILURE(AwaitLines(1, kLinesBefore));
  Kill(cluster_.RankProcesses(job)[1]);
  ASSERT_NO_FATAL_FAILURE(AwaitLines(2, kLinesBefore));
  Kill(cluster_.DaemonProcess("worker-2"));
  ASSERT_NO_FATAL_FAILURE(AwaitLines(3, kLinesBefore));
  const ProcessId controller = cluster_.DaemonProcess("musterd");
  Kill(controller);
  ASSERT_NO_FATAL_FAILURE(AwaitNextController(controller));
  ASSERT_NO_FATAL_FAILURE(AwaitLines(3, Counted(3, 0) + kLinesBefore));
  Kill(cluster_.DaemonProcess("worker-1"));
  ASSERT_NO_FATAL_FAILURE(AwaitLines(4, kLinesBefore));
  std::ofstream(cluster_.Path("go")) << "";
  ASSERT_EQ(cluster_.WaitForEnd(job), "SUCCEEDED") << cluster_.Show(job).dump(1);

  const size_t attempts = Member(cluster_.Show(job), "attempts").size();
  ASSERT_EQ(attempts, 4u);
  const RawRows rows = ReadRows(job);
  EXPECT_EQ(rows.gaps, 0u);
  int lines = 0;
  for (uint32_t attempt = 1; attempt <= attempts; ++attempt) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const RankLife life{attempt, 1, rank};
      const std::string me = absl::StrCat("a", attempt, ".r", rank);
      const int counted = Counted(attempt, rank);
      const bool ended = attempt == attempts;
      ExpectLines(WholeText(rows, life, /*is_stderr=*/false), me + " says", counted, ended);
      ExpectLines(WholeText(rows, life, /*is_stderr=*/true), me + " moans", counted, ended);
      lines += 2 * counted;
    }
  }
  EXPECT_EQ(rows.logs.size(), 4 * attempts) << "a life that nobody began";
  std::cout << "[ rows     ] " << lines << " lines of " << rows.logs.size() << " streams, each once"
            << std::endl;
}

}  // namespace
}  // namespace muster::testing
