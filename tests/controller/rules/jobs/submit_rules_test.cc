// What people ask for: submit, cancel and the forecast of a dry run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::JobOptions;
using ::muster::testing::MakeSettings;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SubmitRulesTest : public ::muster::testing::ControllerFixture {};

TEST_F(SubmitRulesTest, AGangStartsWholeOrNotAtAll) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t waiting = Submit({.min_ranks = 2, .wait_for_capacity = true});
  EXPECT_EQ(state(waiting), JobState::kPending);
  EXPECT_THAT(job(waiting).message,
              HasSubstr("needs 2 CPU slots in pool default: 1 of 1 free on 1 ready worker"));
  Agent two = ConnectNew("worker-2", 1);
  EXPECT_EQ(state(waiting), JobState::kStarting);
  EXPECT_EQ(worker("worker-1").pulse.holders.size(), 1u);
  EXPECT_EQ(worker("worker-2").pulse.holders.size(), 1u);
}

TEST_F(SubmitRulesTest, AJobThatCanNeverFitIsRefusedUnlessItWantsToWait) {
  // Nothing is known of the pool yet: nothing is refused.
  EXPECT_OK(TrySubmit({.min_ranks = 8}).status);
  Agent one = ConnectNew("worker-1", 2);
  EXPECT_THAT(TrySubmit({.min_ranks = 3}).status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("refused: needs 3 CPU slots in pool default, but its 1 worker "
                                 "could give at most 2")));
  EXPECT_THAT(TrySubmit({.kind = SlotKind::kGpu}).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("refused: ")));
  EXPECT_OK(TrySubmit({.min_ranks = 3, .wait_for_capacity = true}).status);
  EXPECT_EQ(snapshot()->jobs.size(), 2u);
}

TEST_F(SubmitRulesTest, TheSameKeyAndSpecGiveTheSameJob) {
  const uint64_t id = Submit({.key = "k", .spec = "{1}"});
  const EventResult again = TrySubmit({.key = "k", .spec = "{1}"});
  EXPECT_OK(again.status);
  EXPECT_EQ(again.job_id, id);
  EXPECT_TRUE(again.already_existed);
  EXPECT_THAT(TrySubmit({.key = "k", .spec = "{2}"}).status,
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("job 1")));
  // Keys are each user's own.
  EXPECT_EQ(TrySubmit({.key = "k", .spec = "{2}", .owner = "bob"}).job_id, id + 1);
  Restart();
  EXPECT_EQ(TrySubmit({.key = "k", .spec = "{1}"}).job_id, id);
  EXPECT_EQ(snapshot()->jobs.size(), 2u);
}

TEST_F(SubmitRulesTest, ARepeatIsKnownByWhatTheClientSent) {
  const auto submit = [&](const std::string& key, const std::string& sent,
                          const std::string& resolved) {
    auto settings = std::make_shared<JobSettings>(*MakeSettings({.spec = resolved}));
    settings->written_spec = sent;
    return Apply(SubmitJob{.settings = settings, .owner = "ann", .idempotency_key = key});
  };
  const uint64_t id = submit("k", "sent", "{resolved by 1.0}").job_id;
  const uint64_t old = submit("old", "", "{resolved}").job_id;  // of an older Muster
  Restart();
  // A default has changed since: the retry is as safe as before.
  const EventResult again = submit("k", "sent", "{resolved by 2.0}");
  EXPECT_OK(again.status);
  EXPECT_EQ(again.job_id, id);
  EXPECT_TRUE(again.already_existed);
  EXPECT_THAT(submit("k", "another", "{resolved by 1.0}").status,
              StatusIs(absl::StatusCode::kAlreadyExists));
  // Where it is not known what was sent, the resolved spec decides.
  EXPECT_EQ(submit("old", "sent", "{resolved}").job_id, old);
  EXPECT_THAT(submit("old", "sent", "{other}").status, StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(SubmitRulesTest, TwoSubmitsWithOneKeyInOneBatchAreOneJob) {
  uint64_t ids[2] = {0, 0};
  for (uint64_t& id : ids) {
    engine_->Post(SubmitJob{.settings = MakeSettings({}), .owner = "ann", .idempotency_key = "k"},
                  [&id](const EventResult& result) { id = result.job_id; });
  }
  engine_->RunUntilIdle();
  EXPECT_EQ(ids[0], 1u);
  EXPECT_EQ(ids[1], 1u);
}

TEST_F(SubmitRulesTest, CancelWorksInEveryState) {
  const uint64_t pending = Submit({.min_ranks = 9});
  EXPECT_OK(Cancel(pending));
  EXPECT_EQ(state(pending), JobState::kCancelled);
  EXPECT_OK(Cancel(pending)) << "a second cancel changes nothing";

  Agent one = ConnectNew("worker-1", 1);
  const uint64_t starting = Submit();
  StartAssignment start = StartRanks(one, /*running=*/false);
  EXPECT_OK(Cancel(starting));
  EXPECT_EQ(state(starting), JobState::kStopping);
  EXPECT_OK(Cancel(starting));
  const auto stop = Take<StopAssignment>(one);
  EXPECT_EQ(stop.mode, StopMode::kTerm);
  EXPECT_EQ(stop.grace, absl::Seconds(10));
  ReportExit(one, start.fence, 0, {.stopped = true});
  EXPECT_EQ(state(starting), JobState::kCancelled);
  EXPECT_TRUE(worker("worker-1").pulse.holders.empty());

  const uint64_t running = Submit();
  start = StartRanks(one);
  EXPECT_OK(Cancel(running));
  ReportExit(one, start.fence, 0, {.succeeded = true});
  EXPECT_EQ(state(running), JobState::kCancelled) << "the user asked first";

  const uint64_t done = Submit();
  start = StartRanks(one);
  ReportExit(one, start.fence, 0, {.succeeded = true});
  EXPECT_THAT(Cancel(done), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("is SUCCEEDED: it has ended")));
  EXPECT_THAT(Cancel(99), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job 99")));
}

TEST_F(SubmitRulesTest, CancelWhileRecoveringEndsCancelled) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t id = Submit({.min_ranks = 2});
  const Fence fence = StartRanks(one).fence;
  StartRanks(two);
  ReportExit(one, fence, 0, {.exit_code = 1});
  EXPECT_EQ(state(id), JobState::kRecovering);
  EXPECT_OK(Cancel(id));
  EXPECT_EQ(state(id), JobState::kStopping);
  ReportExit(two, fence, 1, {.stopped = true});
  EXPECT_EQ(state(id), JobState::kCancelled);
}

TEST_F(SubmitRulesTest, AForecastIsRefusedAsTheSubmitWouldBe) {
  ConnectNew("worker-1", 2);
  const auto forecast = [this](const JobOptions& options) {
    return engine_->Forecast(
        *snapshot(), {.settings = MakeSettings(options), .owner = "ann", .idempotency_key = ""});
  };
  const absl::StatusOr<Explanation> now = forecast({.min_ranks = 2});
  ASSERT_OK(now);
  EXPECT_THAT(now->blockers, IsEmpty());
  EXPECT_EQ(now->ranks.size(), 2u);
  Submit({.min_ranks = 2});
  const absl::StatusOr<Explanation> later = forecast({});
  ASSERT_OK(later);
  EXPECT_THAT(later->reason, HasSubstr("needs 1 CPU slot"));
  EXPECT_EQ(later->blockers.front().kind, BlockerKind::kSlots);
  EXPECT_THAT(forecast({.min_ranks = 3}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("refused: ")));
  EXPECT_OK(
      Apply(SetProject{.project = "default", .quota = Quota{.slots = 1, .queued = {}}}).status);
  EXPECT_THAT(forecast({.min_ranks = 2}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("over quota")));
  EXPECT_EQ(snapshot()->jobs.size(), 1u) << "nothing was stored";
}

TEST_F(SubmitRulesTest, AnExplanationSaysWhatTheRowSays) {
  ConnectNew("worker-1", 2);
  Submit({.min_ranks = 2});
  const uint64_t waiting = Submit({.min_ranks = 2});
  const absl::StatusOr<Explanation> e = engine_->Explain(*snapshot(), waiting);
  ASSERT_OK(e);
  EXPECT_EQ(e->reason, job(waiting).message);
  EXPECT_THAT(e->why_unknown, HasSubstr("nobody can tell when job 1"));
  EXPECT_THAT(engine_->Explain(*snapshot(), 99).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("job 99")));
}

}  // namespace
}  // namespace muster::controller
