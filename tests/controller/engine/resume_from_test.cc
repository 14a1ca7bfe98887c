// Jobs that begin from the checkpoints of another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::JobOptions;
using ::muster::testing::MakeSettings;
using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ResumeFromTest : public ::muster::testing::ControllerFixture {
 protected:
  EventResult TryBegin(const ResumeRequest& wish, const JobOptions& options = {}) {
    return Apply(SubmitJob{.settings = MakeSettings(options),
                           .owner = "ann",
                           .idempotency_key = options.key,
                           .resume = wish});
  }
  uint64_t Begin(const ResumeRequest& wish, const JobOptions& options = {}) {
    const EventResult result = TryBegin(wish, options);
    EXPECT_OK(result.status);
    return result.job_id;
  }
  // A job that saved these steps, all verified, and has succeeded.
  uint64_t Finished(Agent& agent, std::initializer_list<int64_t> steps,
                    const JobOptions& options = {.keep_last = 5}) {
    const uint64_t id = Submit(options);
    const Fence fence = StartRanks(agent).fence;
    for (int64_t step : steps) {
      EXPECT_OK(Apply(MakeCommit(agent, fence, step)).status);
      AnswerVerify(agent, true);
    }
    ReportExit(agent, fence, 0, {.succeeded = true, .last_step = *(steps.end() - 1)});
    EXPECT_EQ(state(id), JobState::kSucceeded);
    return id;
  }
  std::vector<uint64_t> sources(uint64_t id) const { return job(id).settings->resume_from; }
  std::vector<int64_t> Offered(const StartAssignment& start) const {
    std::vector<int64_t> steps;
    for (const auto& resume : start.resume) steps.push_back(resume.step);
    return steps;
  }
  CheckpointReport Unreadable(Agent& agent, const Fence& fence, uint64_t checkpoint) {
    CheckpointReport report = MakeCommit(agent, fence, 1);
    report.kind = CheckpointReport::Kind::kCorrupt;
    report.path = snapshot()->FindCheckpoint(checkpoint)->path;
    report.message = "block 3 differs";
    return report;
  }
};

TEST_F(ResumeFromTest, TheFirstAttemptIsOfferedTheOtherJobsAndLaterOnesTheirOwnFirst) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t first = Finished(one, {5, 7});
  const uint64_t id = Begin({.job_id = first});
  EXPECT_THAT(sources(id), ElementsAre(2u, 1u));
  EXPECT_EQ(job(id).events.front()->message, "queued; begins from job 1 (job), step 7");
  StartAssignment start = StartRanks(one);
  EXPECT_THAT(Offered(start), ElementsAre(7, 5));
  EXPECT_EQ(start.resume[0].job_id, first);
  EXPECT_EQ(start.resume[0].job_name, "job");
  EXPECT_EQ(start.resume[0].path, job(first).checkpoint_folder() + "/step-7.a1.g1");
  EXPECT_EQ(start.checkpoint_root, job(id).checkpoint_folder());
  EXPECT_EQ(job(id).current->first_step, 7);
  Apply(MakeCommit(one, start.fence, 9));
  ReportExit(one, start.fence, 0, {.signal = 9, .last_step = 10});
  Advance(absl::Seconds(1));
  start = StartRanks(one);
  EXPECT_THAT(Offered(start), ElementsAre(9, 7, 5));
  EXPECT_EQ(start.resume[0].job_id, 0u) << "its own";
  EXPECT_EQ(job(id).current->first_step, 9);
}

TEST_F(ResumeFromTest, ItIsSettledAtSubmitAndStaysSoOverRepeatsAndRestarts) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t first = Submit({.keep_last = 5});
  const Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5));
  AnswerVerify(one, true);
  const JobOptions options{.key = "k", .spec = "{1}"};
  const uint64_t id = Begin({.job_id = first}, options);
  Apply(MakeCommit(one, fence, 6));
  AnswerVerify(one, true);
  EXPECT_THAT(sources(id), ElementsAre(1u));
  EventResult again = TryBegin({.job_id = first}, options);
  EXPECT_TRUE(again.already_existed);
  EXPECT_EQ(again.job_id, id);
  EXPECT_THAT(sources(id), ElementsAre(1u));
  Restart();
  EXPECT_THAT(sources(id), ElementsAre(1u));
  EXPECT_THAT(*snapshot()->resuming_jobs, ElementsAre(id));
  again = TryBegin({.job_id = first}, options);
  EXPECT_EQ(again.job_id, id);
  EXPECT_EQ(snapshot()->jobs.size(), 2u);
  // One decision with the commit: what is refused leaves nothing.
  EXPECT_THAT(TryBegin({.job_id = 99}).status, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(TryBegin({.job_id = id}).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("it has saved none")));
  EXPECT_EQ(snapshot()->jobs.size(), 2u);
}

TEST_F(ResumeFromTest, AForecastSaysWhatTheSubmitWouldTake) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t first = Finished(one, {5, 7});
  const auto forecast = [&](const ResumeRequest& wish) {
    return engine_->Forecast(
        *snapshot(),
        {.settings = MakeSettings({}), .owner = "ann", .idempotency_key = "", .resume = wish});
  };
  const absl::StatusOr<Explanation> found =
      forecast({.job_id = first, .which = ResumeRequest::Which::kStep, .step = 5});
  ASSERT_OK(found);
  EXPECT_THAT(found->resume_from, ElementsAre(1u));
  EXPECT_THAT(
      forecast({.job_id = first, .which = ResumeRequest::Which::kStep, .step = 6}).status(),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("of step 6; there are those of step 7, 5")));
  EXPECT_EQ(snapshot()->jobs.size(), 1u);
}

TEST_F(ResumeFromTest, AutoBeginsFromNothingOnlyWhenNobodyHasSaved) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t fresh = Begin({.automatic = true}, {.keep_last = 5});
  EXPECT_THAT(sources(fresh), IsEmpty());
  EXPECT_THAT(job(fresh).events.front()->message, HasSubstr("begins from nothing: no job of its"));
  StartAssignment start = StartRanks(one);
  EXPECT_THAT(Offered(start), IsEmpty());
  Apply(MakeCommit(one, start.fence, 5));
  ReportExit(one, start.fence, 0, {.succeeded = true, .last_step = 5});
  const uint64_t second = Begin({.automatic = true});
  EXPECT_THAT(sources(second), ElementsAre(1u));
  EXPECT_THAT(sources(Begin({.automatic = true}, {.name = "other"})), IsEmpty());
  Restart();
  EXPECT_THAT(sources(Begin({.automatic = true})), ElementsAre(1u)) << "after a restart as well";
}

TEST_F(ResumeFromTest, AllTasksOfAnArrayBeginFromTheSame) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t first = Finished(one, {5});
  const EventResult array = Apply(SubmitJob{.settings = MakeSettings({}),
                                            .owner = "ann",
                                            .idempotency_key = "",
                                            .array = ArrayRange{.first = 1, .last = 3},
                                            .resume = ResumeRequest{.job_id = first}});
  ASSERT_OK(array.status);
  for (uint64_t id = array.job_id; id < array.job_id + 3; ++id) {
    EXPECT_THAT(sources(id), ElementsAre(1u)) << id;
  }
}

TEST_F(ResumeFromTest, RetentionLeavesASourceUntilTheJobHasAVerifiedOneOfItsOwn) {
  Agent one = ConnectNew("worker-1", 2);
  const uint64_t first = Submit({.keep_last = 2});
  const Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5));
  AnswerVerify(one, true);
  const uint64_t id = Begin({.job_id = first});
  const Fence other = StartRanks(one).fence;
  for (int64_t step : {6, 7, 8}) {
    Apply(MakeCommit(one, fence, step));
    AnswerVerify(one, true);
  }
  EXPECT_EQ(Take<DeleteAssignment>(one).checkpoint_id, 2u);
  EXPECT_FALSE(WasSent<DeleteAssignment>(one)) << "1 is what job 2 begins from";
  Apply(MakeCommit(one, other, 6));
  EXPECT_FALSE(WasSent<DeleteAssignment>(one));
  AnswerVerify(one, true);
  EXPECT_EQ(Take<DeleteAssignment>(one).checkpoint_id, 1u);
  EXPECT_EQ(state(id), JobState::kRunning);
}

TEST_F(ResumeFromTest, ADeletionThatWasPlannedBeforeTheSubmitIsVoid) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t first = Finished(one, {5, 7});
  const AssignCheckpointWork late{.actions = {{.kind = AssignmentKind::kDelete,
                                               .checkpoint_id = 1,
                                               .worker = "worker-1",
                                               .reason = "old"}}};
  // In one batch, as a busy controller applies them.
  engine_->Post(SubmitJob{.settings = MakeSettings({.min_ranks = 2, .wait_for_capacity = true}),
                          .owner = "ann",
                          .idempotency_key = "",
                          .resume = ResumeRequest{.job_id = first}},
                [](const EventResult& result) { EXPECT_OK(result.status); });
  engine_->Post(late, [](const EventResult&) {});
  engine_->RunUntilIdle();
  EXPECT_FALSE(WasSent<DeleteAssignment>(one));
  EXPECT_OK(Apply(late).status);
  EXPECT_FALSE(WasSent<DeleteAssignment>(one));
  EXPECT_OK(Cancel(2));
  EXPECT_OK(Apply(late).status);
  EXPECT_TRUE(WasSent<DeleteAssignment>(one)) << "nobody needs it any more";
}

TEST_F(ResumeFromTest, AnUnreadableSourceIsRereadByItsOwnPoolAndTheNextOneTaken) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t first = Finished(one, {5, 7});
  const uint64_t id = Begin({.job_id = first});
  const Fence fence = StartRanks(one, /*running=*/false).fence;
  EXPECT_OK(Apply(Unreadable(one, fence, 2)).status);
  EXPECT_EQ(job(id).current->first_step, 5);
  EXPECT_EQ(snapshot()->FindCheckpoint(2)->state, CheckpointState::kVerified)
      << "another job's word is not enough";
  EXPECT_EQ(AnswerVerify(one, false, "it is gone").checkpoint_id, 2u);
  EXPECT_EQ(snapshot()->FindCheckpoint(2)->state, CheckpointState::kCorrupt);
  ReportExit(one, fence, 0, {.signal = 9});
  Advance(absl::Seconds(1));
  EXPECT_THAT(Offered(StartRanks(one, false)), ElementsAre(5));
}

TEST_F(ResumeFromTest, WithAllSourcesGoneTheJobFailsAndNeverBeginsFromNothing) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t first = Finished(one, {5});
  const uint64_t id = Begin({.job_id = first});
  const Fence fence = StartRanks(one, /*running=*/false).fence;
  EXPECT_OK(Apply(Unreadable(one, fence, 1)).status);
  EXPECT_EQ(job(id).current->first_step, 0);
  AnswerVerify(one, false, "there is no folder");
  ReportExit(one, fence, 0,
             {.failure_class = FailureClass::kCorruption, .exit_code = 1, .message = "gone"});
  Advance(absl::Seconds(2));
  EXPECT_FALSE(WasSent<StartAssignment>(one));
  EXPECT_EQ(state(id), JobState::kFailed);
  EXPECT_EQ(job(id).reason, Reason::kNotRetryable);
  EXPECT_EQ(job(id).failure_class, FailureClass::kCorruption);
  EXPECT_THAT(job(id).message,
              HasSubstr("it was to begin from job 1 (job), step 5, which is CORRUPT (there is no "
                        "folder), and has none of its own"));
}

TEST_F(ResumeFromTest, AReportOfAnotherJobsPathThatItIsNotOfferedChangesNothing) {
  Agent one = ConnectNew("worker-1", 2);
  const uint64_t first = Finished(one, {5});
  Submit();
  const Fence fence = StartRanks(one, /*running=*/false).fence;
  EXPECT_OK(Apply(Unreadable(one, fence, 1)).status);
  EXPECT_FALSE(WasSent<VerifyAssignment>(one));
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->job_id, first);
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->state, CheckpointState::kVerified);
}

}  // namespace
}  // namespace muster::controller
