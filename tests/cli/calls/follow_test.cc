// What happens to a follower when the controller goes away, and at Ctrl-C.
#include "cli/calls/follow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands/submit/run_follow.h"
#include "cli/session/cli_session.h"
#include "cli/session/interrupt.h"
#include "tests/cli/fake_job_service.h"
#include "tests/support/status_matchers.h"

namespace muster::cli::testing {
namespace {

using muster::testing::StatusIs;
using ::testing::HasSubstr;

class FollowTest : public ::testing::Test {
 protected:
  FollowTest() {
    service_.Start();
    host_.env = [this](const char* name) -> std::optional<std::string> {
      if (std::string(name) == "MUSTER_ADDR") return service_.address();
      if (std::string(name) == "MUSTER_TOKEN") return FakeJobService::kToken;
      return std::nullopt;
    };
    job_.set_name("digits");
  }

  FakeJobService service_;
  std::istringstream in_;
  std::ostringstream out_;
  std::ostringstream err_;
  Host host_{.in = in_, .out = out_, .err = err_};
  Session session_{host_, PosixFileSystem()};
  v1::JobRef job_;
};

TEST_F(FollowTest, ComesBackToTheSameJobAfterARestartOfTheController) {
  service_.PutJob(MakeJob(7, "digits", v1::RUNNING));
  InterruptGuard guard;
  std::vector<v1::JobState> seen;
  const auto summary = FollowJob(session_, guard, job_, [&](const v1::JobSummary& job) {
    seen.push_back(job.state());
    if (seen.size() > 1) return;
    service_.Stop();
    // A newer job of the same name is another job.
    service_.PutJob(MakeJob(8, "digits", v1::RUNNING));
    service_.PutJob(MakeJob(7, "digits", v1::SUCCEEDED));
    service_.Start();
  });
  ASSERT_OK(summary);
  EXPECT_EQ(summary->id(), 7u);
  EXPECT_EQ(summary->state(), v1::SUCCEEDED);
  EXPECT_THAT(err_.str(), HasSubstr("lost the controller"));
  EXPECT_THAT(err_.str(), HasSubstr("is back"));
}

TEST_F(FollowTest, AControllerThatWasNeverThereIsAnErrorAtOnce) {
  service_.Stop();
  InterruptGuard guard;
  EXPECT_THAT(FollowJob(session_, guard, job_, [](const v1::JobSummary&) {}),
              StatusIs(absl::StatusCode::kUnavailable));
}

// As the controller ends a stream whose client has not read for minutes: its output stood still.
TEST_F(FollowTest, ARunGoesOnAfterTheControllerCancelledItsStream) {
  service_.PutJob(MakeJob(7, "digits", v1::SUCCEEDED));
  v1::StreamLogsResponse chunk;
  chunk.set_text("one\n");
  service_.PutLog(7, chunk);
  chunk.set_offset(4);
  chunk.set_text("two\n");
  service_.SetCutEnd(absl::CancelledError("CANCELLED"));
  service_.CutLogsOff(1, {chunk});
  InterruptGuard guard;
  const auto outcome = FollowRun({.job_id = 7}, session_, guard);
  ASSERT_OK(outcome);
  EXPECT_FALSE(outcome->interrupted);
  EXPECT_EQ(ProgramExitCode(outcome->job), 0);
  EXPECT_EQ(out_.str(), "one\ntwo\n");
}

TEST_F(FollowTest, AnInterruptLeavesTheJobRunningAndSaysSo) {
  service_.PutJob(MakeJob(7, "digits", v1::RUNNING));
  InterruptGuard guard;
  const auto summary =
      FollowJob(session_, guard, job_, [](const v1::JobSummary&) { ::kill(::getpid(), SIGINT); });
  EXPECT_THAT(summary, StatusIs(absl::StatusCode::kCancelled, HasSubstr("goes on")));
  EXPECT_EQ(ExitCodeOf(summary.status()), ExitCode::kInterrupted);
  EXPECT_THAT(HintOf(summary.status()), HasSubstr("muster watch digits"));
  EXPECT_FALSE(guard.Pause(absl::Hours(1))) << "an interrupt ends every later pause";
}

TEST_F(FollowTest, AnInterruptBeforeTheCallEndsItToo) {
  service_.PutJob(MakeJob(7, "digits", v1::RUNNING));
  InterruptGuard guard;
  ::kill(::getpid(), SIGINT);
  EXPECT_FALSE(guard.Pause(absl::InfiniteDuration()));
  EXPECT_THAT(FollowJob(session_, guard, job_, [](const v1::JobSummary&) {}),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(FollowTest, AfterAResetTheNextInterruptCounts) {
  InterruptGuard guard;
  ::kill(::getpid(), SIGINT);
  EXPECT_FALSE(guard.Pause(absl::InfiniteDuration()));
  guard.Reset();
  EXPECT_FALSE(guard.interrupted());
  bool heard = false;
  guard.Set([&heard] { heard = true; });
  ::kill(::getpid(), SIGINT);
  EXPECT_FALSE(guard.Pause(absl::InfiniteDuration()));
  guard.Clear();
  EXPECT_TRUE(heard);
}

// Without patience any time that has passed since a loss is too long.
TEST_F(FollowTest, PatienceCountsFromTheLossHoweverLongNothingCameBefore) {
  InterruptGuard guard;
  const absl::Status lost = absl::UnavailableError("gone");
  Reconnect reconnect(
      session_, guard,
      {.patience = absl::ZeroDuration(), .connected_after = absl::InfiniteDuration()});
  reconnect.OnConnected();
  const absl::Duration never = absl::ZeroDuration();
  EXPECT_OK(reconnect.OnDisconnected(lost, never)) << "the first loss since something came";
  reconnect.OnConnected();
  EXPECT_OK(reconnect.OnDisconnected(lost, never)) << "another spell";
  EXPECT_THAT(reconnect.OnDisconnected(lost, never), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(err_.str(),
            "lost the controller; waiting for it to come back\n"
            "the controller is back\n"
            "lost the controller; waiting for it to come back\n");
}

TEST_F(FollowTest, ACancelledStreamIsALossUnlessItWasInterrupted) {
  InterruptGuard guard;
  const absl::Status cancelled = absl::CancelledError("CANCELLED");
  Reconnect reconnect(session_, guard, {.patience = absl::ZeroDuration()});
  reconnect.OnConnected();
  EXPECT_OK(reconnect.OnDisconnected(cancelled, absl::ZeroDuration()));
  EXPECT_THAT(reconnect.OnDisconnected(cancelled, absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kUnavailable))
      << "nobody has interrupted it";
  reconnect.OnConnected();
  ::kill(::getpid(), SIGINT);
  EXPECT_FALSE(guard.Pause(absl::InfiniteDuration()));
  EXPECT_THAT(reconnect.OnDisconnected(cancelled, absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kCancelled));
}

// However long it takes to find nobody: names may be looked up for minutes.
TEST_F(FollowTest, ACallThatWasConnectedFoundItThoughNothingCame) {
  InterruptGuard guard;
  const absl::Status lost = absl::UnavailableError("gone");
  const ReconnectLimits limits = {.patience = absl::ZeroDuration()};
  Reconnect reconnect(session_, guard, limits);
  reconnect.OnConnected();
  EXPECT_OK(reconnect.OnDisconnected(lost, absl::ZeroDuration()));
  EXPECT_OK(reconnect.OnDisconnected(lost, limits.connected_after))
      << "a later restart is a loss anew";
  EXPECT_THAT(reconnect.OnDisconnected(lost, limits.connected_after - absl::Seconds(1)),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace muster::cli::testing
