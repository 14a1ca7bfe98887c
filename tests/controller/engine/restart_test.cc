// What a controller that was killed finds on disk: everything that it promised.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/model/ledger_rules.h"
#include "controller/store/state_store.h"
#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::MakeSettings;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

class RestartTest : public ::muster::testing::ControllerFixture {};

TEST_F(RestartTest, TheTermGrowsWithEachStart) {
  EXPECT_EQ(snapshot()->term, 1u);
  Restart();
  EXPECT_EQ(snapshot()->term, 2u);
  Restart();
  EXPECT_EQ(snapshot()->term, 3u);
}

TEST_F(RestartTest, TheControllersIdStays) {
  const std::string id = snapshot()->controller_id;
  EXPECT_EQ(id.size(), 16u);
  Submit();  // another version of the model
  EXPECT_EQ(snapshot()->controller_id, id);
  Restart();
  EXPECT_EQ(snapshot()->controller_id, id);
}

TEST_F(RestartTest, TasksOfAnArrayShareTheirSettings) {
  const EventResult array = Apply(SubmitJob{
      .settings = MakeSettings({}), .owner = "ann", .array = ArrayRange{.first = 1, .last = 3}});
  ASSERT_OK(array.status);
  const uint64_t first = array.job_id;
  const uint64_t other = Submit({.min_ranks = 2});
  Restart();
  EXPECT_EQ(job(first).settings, job(first + 1).settings);
  EXPECT_EQ(job(first).settings, job(first + 2).settings);
  EXPECT_NE(job(first).settings, job(other).settings);
}

TEST_F(RestartTest, ASecondEngineOnTheSameFolderIsRefused) {
  EXPECT_THAT(Engine::Open(Options(), clock_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another process")));
}

TEST_F(RestartTest, ARunningGangIsAdopted) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  Restart();
  EXPECT_EQ(state(id), JobState::kRunning);
  EXPECT_FALSE(worker("worker-1").pulse.connected);
  EXPECT_EQ(worker("worker-1").pulse.holders.size(), 1u);
  one.alive[0].step = 55;
  EXPECT_TRUE(Connect(one, 1).stale.empty());
  EXPECT_EQ(job(id).progress.step, 55);
  ReportExit(one, fence, 0, {.succeeded = true, .last_step = 60});
  EXPECT_EQ(state(id), JobState::kSucceeded);
}

TEST_F(RestartTest, AnAssignmentThatWasNotAcknowledgedIsSentAgain) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.spec = "{\"a\":1}"});
  ASSERT_TRUE(WasSent<StartAssignment>(one));
  const uint64_t seq = one.link->sent.front().seq;
  Restart();
  EXPECT_EQ(snapshot()->outbox.size(), 1u);
  Connect(one);
  ASSERT_TRUE(WasSent<StartAssignment>(one));
  EXPECT_EQ(one.link->sent.front().seq, seq);
  const auto start = Take<StartAssignment>(one);
  EXPECT_EQ(start.spec, "{\"a\":1}");
  EXPECT_EQ(start.fence.term, 1u) << "the term that placed it";
  EXPECT_TRUE(snapshot()->outbox.empty());
  EXPECT_EQ(state(id), JobState::kStarting);
}

TEST_F(RestartTest, SequencesAreNotUsedTwice) {
  Agent one = ConnectNew("worker-1", 2);
  Submit();
  const uint64_t first = one.link->sent.front().seq;
  StartRanks(one);
  Restart();
  Connect(one);
  Submit();
  ASSERT_TRUE(WasSent<StartAssignment>(one));
  EXPECT_GT(one.link->sent.front().seq, first);
}

TEST_F(RestartTest, AnAssignmentIsRepeatedOnTheSameStreamUntilItIsAcknowledged) {
  Agent one = ConnectNew("worker-1", 1);
  Submit();
  EXPECT_EQ(one.link->sent.size(), 1u);
  for (int i = 0; i < 6; ++i) {
    clock_.Advance(absl::Seconds(5));
    ASSERT_OK(Beat(one).status);
  }
  EXPECT_EQ(one.link->sent.size(), 2u);
  Take<StartAssignment>(one);
}

TEST_F(RestartTest, AGangThatWasMeetingStartsOverForFree) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.max_restarts = 0});
  const Fence fence = StartRanks(one, /*running=*/false).fence;
  Restart();
  Connect(one);
  std::string error;
  engine_->Store(
      {.fence = fence, .kind = StoreOp::Kind::kGet, .keys = {"k"}, .timeout = absl::Minutes(1)},
      [&](const StoreAnswer& answer) { error = answer.error; });
  EXPECT_THAT(error, HasSubstr("the controller restarted"));
  ReportExit(one, fence, 0, {.failure_class = FailureClass::kPeerLost, .exit_code = 1});
  EXPECT_EQ(job(id).failure_class, FailureClass::kPreempted);
  EXPECT_EQ(state(id), JobState::kStarting);
}

TEST_F(RestartTest, AnAgentThatComesBackWithoutItsRankTellsSo) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  Restart();
  const uint64_t placed = job(id).attempt;
  one.alive.clear();
  Connect(one);
  EXPECT_EQ(state(id), JobState::kRunning);
  ReportExit(one, fence, 0, {.signal = 9});
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_EQ(job(id).attempt, placed);
}

TEST_F(RestartTest, EverythingThatIsStoredComesBackAsItWas) {
  Agent one = ConnectNew("worker-1", 2);
  one.facts.labels = {{"zone", "a"}, {"weird", "\xff\"\n"}};
  one.facts.slots[0].uuid = "GPU-1";
  const uint64_t id = Submit({.max_ranks = 2, .keep_last = 3, .priority = 4, .key = "k"});
  const Fence fence = StartRanks(one).fence;
  CheckpointReport commit = MakeCommit(one, fence, 5, /*best=*/true);
  commit.metrics = {{"validation_accuracy", 0.5}};
  commit.epoch = 1.5;
  Apply(commit);
  AnswerVerify(one, true);
  ReportExit(one, fence, 0, {.exit_code = 3, .last_step = 8, .message = "boom"});
  const Job before = job(id);
  const Checkpoint saved = *snapshot()->FindCheckpoint(1);
  Restart();
  const Job after = job(id);
  EXPECT_EQ(after.settings->needs.max_ranks, 2u);
  EXPECT_EQ(after.settings->keep_last, 3u);
  EXPECT_EQ(after.settings->priority, 4);
  EXPECT_EQ(after.settings->restart.backoff, absl::Seconds(1));
  EXPECT_EQ(after.idempotency_key, "k");
  EXPECT_EQ(after.checkpoint_folder(), before.checkpoint_folder());
  EXPECT_EQ(after.state, before.state);
  EXPECT_EQ(after.message, before.message);
  EXPECT_EQ(after.submitted, absl::FromUnixMillis(absl::ToUnixMillis(before.submitted)));
  ASSERT_EQ(after.events.size(), before.events.size());
  for (size_t i = 0; i < after.events.size(); ++i) {
    EXPECT_EQ(after.events[i]->sequence, before.events[i]->sequence);
    EXPECT_EQ(after.events[i]->message, before.events[i]->message);
  }
  ASSERT_EQ(after.current->ranks.size(), 2u);
  EXPECT_EQ(after.current->ranks[0].exit_code, 3);
  EXPECT_FALSE(after.current->ranks[0].holds_slots);
  EXPECT_TRUE(after.current->ranks[1].holds_slots);
  EXPECT_EQ(after.current->cause, before.current->cause);
  const Checkpoint loaded = *snapshot()->FindCheckpoint(1);
  EXPECT_EQ(loaded.state, CheckpointState::kVerified);
  EXPECT_EQ(loaded.path, saved.path);
  EXPECT_NE(saved.created_at, absl::InfinitePast());
  EXPECT_EQ(loaded.created_at, saved.created_at);
  EXPECT_EQ(loaded.metrics.at("validation_accuracy"), 0.5);
  EXPECT_EQ(loaded.epoch, 1.5);
  EXPECT_TRUE(loaded.best);
  EXPECT_EQ(loaded.rereads, 1u);
}

TEST_F(RestartTest, ReplayingTheEventsGivesTheStatesOfAllJobs) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  Submit({.min_ranks = 2});
  Fence fence = StartRanks(one).fence;
  StartRanks(two);
  ReportExit(one, fence, 0, {.signal = 9});
  ReportExit(two, fence, 1, {.stopped = true});
  Submit({.min_ranks = 2});
  EXPECT_OK(Cancel(2));
  Submit({.min_ranks = 1});
  Advance(absl::Seconds(2));
  std::vector<std::shared_ptr<const JobEvent>> events(snapshot()->last_event);
  snapshot()->jobs.ForEach([&](const Job& job) {
    for (const auto& event : job.events) events[event->sequence - 1] = event;
  });
  for (const auto& event : events) ASSERT_NE(event, nullptr) << "a gap";
  const auto states = ReplayEvents(events);
  ASSERT_OK(states);
  snapshot()->jobs.ForEach([&](const Job& job) { EXPECT_EQ(states->at(job.id), job.state); });
}

TEST_F(RestartTest, WhenAJobCameAndEndedIsKnownByTheLedgerToo) {
  boot_ = 7;
  Restart();
  const absl::Time submitted = snapshot()->LedgerTime(clock_.SinceBoot());
  const uint64_t id = Submit();
  clock_.Advance(absl::Minutes(5));
  clock_.JumpWall(-absl::Hours(10'000));
  ASSERT_OK(Cancel(id));
  clock_.JumpWall(absl::Hours(30'000));
  Restart();
  const Job& job = *snapshot()->FindJob(id);
  ASSERT_EQ(job.state, JobState::kCancelled);
  EXPECT_EQ(SubmittedAt(job), WholeNanoseconds(submitted));
  EXPECT_EQ(FinishedAt(job), WholeNanoseconds(submitted + absl::Minutes(5)));
}

TEST_F(RestartTest, LedgerTimeGoesOnByTheBootAndNotByTheWallClock) {
  boot_ = 7;
  Restart();
  const absl::Time origin = snapshot()->ledger_origin;
  for (const absl::Duration step : {absl::Hours(10'000), -absl::Hours(30'000)}) {
    clock_.JumpWall(step);
    clock_.Advance(absl::Minutes(5));
    Restart();
    EXPECT_EQ(snapshot()->ledger_origin, origin);
  }
  // In another boot there is only the wall clock to go by.
  boot_ = 8;
  clock_.JumpWall(absl::Hours(40'000));
  Restart();
  EXPECT_EQ(snapshot()->LedgerTime(clock_.SinceBoot()), clock_.Now());
}

}  // namespace
}  // namespace muster::controller
