// Checkpoints: written, verified, resumed from and deleted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

class CheckpointsTest : public ::muster::testing::ControllerFixture {
 protected:
  CheckpointState ckpt(uint64_t id) const { return snapshot()->FindCheckpoint(id)->state; }

  absl::Status Control(ControlCheckpoint::Verb verb, uint64_t id, bool force = false) {
    return Apply(ControlCheckpoint{
                     .verb = verb, .checkpoint_id = id, .actor = "user:ann", .force = force})
        .status;
  }
  absl::Status Pin(uint64_t id) { return Control(ControlCheckpoint::Verb::kPin, id); }
  absl::Status Unpin(uint64_t id) { return Control(ControlCheckpoint::Verb::kUnpin, id); }
  absl::Status Remove(uint64_t id, bool force = false) {
    return Control(ControlCheckpoint::Verb::kRemove, id, force);
  }
  void CommitVerified(Agent& agent, const Fence& fence, int64_t step) {
    EXPECT_OK(Apply(MakeCommit(agent, fence, step)).status);
    AnswerVerify(agent, true);
  }
  // Takes the next deletion and answers it.
  DeleteAssignment AnswerDelete(Agent& agent, const std::string& fault = "") {
    const auto assignment = Take<DeleteAssignment>(agent);
    EXPECT_OK(Apply(DeleteReport{.worker = agent.name,
                                 .incarnation = agent.incarnation,
                                 .event_seq = ++agent.event_seq,
                                 .outbox_seq = last_seq_,
                                 .checkpoint_id = assignment.checkpoint_id,
                                 .ok = fault.empty(),
                                 .message = fault})
                  .status);
    return assignment;
  }

  CheckpointReport MakeOther(Agent& agent, const Fence& fence, CheckpointReport::Kind kind,
                             int64_t step) {
    CheckpointReport report = MakeCommit(agent, fence, step);
    report.kind = kind;
    return report;
  }
};

TEST_F(CheckpointsTest, ACheckpointIsWrittenCommittedAndVerified) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  EXPECT_OK(Apply(MakeOther(one, fence, CheckpointReport::Kind::kBegin, 5)).status);
  EXPECT_EQ(ckpt(1), CheckpointState::kWriting);
  EXPECT_OK(Apply(MakeCommit(one, fence, 5)).status);
  EXPECT_EQ(ckpt(1), CheckpointState::kCommitted);
  EXPECT_EQ(job(id).checkpoints.size(), 1u);
  const VerifyAssignment verify = AnswerVerify(one, true);
  EXPECT_EQ(verify.manifest_sha256, "sha-5");
  EXPECT_EQ(ckpt(1), CheckpointState::kVerified);
  EXPECT_TRUE(snapshot()->outbox.empty());
  EXPECT_TRUE(snapshot()->retention_jobs->empty());
}

TEST_F(CheckpointsTest, AFolderOutsideTheJobsOwnIsRefused) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  const std::string own = job(id).checkpoint_folder();
  for (const std::string& path :
       {std::string("/etc"), own, own + "/", own + "/..", own + "0/x", own + "/../../etc",
        own.substr(1) + "/x", std::string("/ckpt/job-1/x")}) {
    CheckpointReport commit = MakeCommit(one, fence, 5);
    commit.path = path;
    EXPECT_THAT(Apply(commit).status, StatusIs(absl::StatusCode::kInvalidArgument)) << path;
  }
  EXPECT_TRUE(job(id).checkpoints.empty());
}

TEST_F(CheckpointsTest, OnlySoManyBegunOnesAreRecordedAndCommitsStillAre) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  for (int64_t step = 1; step <= 40; ++step) {
    EXPECT_OK(Apply(MakeOther(one, fence, CheckpointReport::Kind::kBegin, step)).status);
  }
  EXPECT_EQ(job(id).checkpoints.size(), 16u);
  EXPECT_OK(Apply(MakeCommit(one, fence, 40)).status);
  EXPECT_EQ(job(id).checkpoints.size(), 17u);
}

TEST_F(CheckpointsTest, ALoopThatFailsToSaveLeavesOnlySoManyRows) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  for (int64_t step = 1; step <= 40; ++step) {
    EXPECT_OK(Apply(MakeOther(one, fence, CheckpointReport::Kind::kBegin, step)).status);
    EXPECT_OK(Apply(MakeOther(one, fence, CheckpointReport::Kind::kFailed, step)).status);
  }
  EXPECT_EQ(job(id).checkpoints.size(), 16u);
  EXPECT_OK(Apply(MakeCommit(one, fence, 41)).status);
  EXPECT_EQ(job(id).checkpoints.size(), 17u);
}

TEST_F(CheckpointsTest, ABrokenOneIsNeverOfferedForResume) {
  Agent one = ConnectNew("worker-1", 1);
  Submit();
  const Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5));
  AnswerVerify(one, true);
  Apply(MakeCommit(one, fence, 6));
  AnswerVerify(one, false, "block 3 differs");
  EXPECT_EQ(ckpt(2), CheckpointState::kCorrupt);
  EXPECT_EQ(snapshot()->FindCheckpoint(2)->message, "block 3 differs");
  EXPECT_EQ(snapshot()->counters.checkpoints_corrupt, 1u);
  ReportExit(one, fence, 0, {.signal = 9, .last_step = 7});
  Advance(absl::Seconds(1));
  const StartAssignment again = StartRanks(one);
  ASSERT_EQ(again.resume.size(), 1u);
  EXPECT_EQ(again.resume[0].step, 5);
}

TEST_F(CheckpointsTest, OneFoundBrokenWhileLoadingIsRereadAndThenMarked) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5));
  AnswerVerify(one, true);
  const std::string path = snapshot()->FindCheckpoint(1)->path;
  ReportExit(one, fence, 0, {.signal = 9});
  Advance(absl::Seconds(1));
  fence = StartRanks(one, false).fence;
  EXPECT_EQ(job(id).current->first_step, 5);
  CheckpointReport corrupt = MakeOther(one, fence, CheckpointReport::Kind::kCorrupt, 5);
  corrupt.path = path;
  EXPECT_OK(Apply(corrupt).status);
  EXPECT_EQ(ckpt(1), CheckpointState::kVerified) << "a rank's word";
  EXPECT_EQ(job(id).current->first_step, 0);
  AnswerVerify(one, false, "block 3 differs");
  EXPECT_EQ(ckpt(1), CheckpointState::kCorrupt);
}

TEST_F(CheckpointsTest, ABestOneThatIsBrokenDoesNotChangeWhatTheAttemptWasResumedFrom) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5, /*best=*/true));
  Apply(MakeCommit(one, fence, 9));
  ReportExit(one, fence, 0, {.signal = 9, .last_step = 9});
  Advance(absl::Seconds(1));
  fence = StartRanks(one, false).fence;
  ASSERT_EQ(job(id).current->first_step, 9);
  for (const auto kind : {CheckpointReport::Kind::kUnread, CheckpointReport::Kind::kCorrupt}) {
    CheckpointReport report = MakeOther(one, fence, kind, 5);
    report.path = snapshot()->FindCheckpoint(1)->path;
    EXPECT_OK(Apply(report).status);
    EXPECT_EQ(job(id).current->first_step, 9);
    EXPECT_EQ(job(id).current->last_step, 9);
    EXPECT_EQ(job(id).ledger.step, 9);
  }
}

TEST_F(CheckpointsTest, AnAdoptedOneIsWhatTheAttemptGoesOnFrom) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5, /*best=*/true));
  ReportExit(one, fence, 0, {.signal = 9, .last_step = 9});
  Advance(absl::Seconds(1));
  fence = StartRanks(one, false).fence;
  ASSERT_EQ(job(id).current->first_step, 5);
  // Its writer died before it could tell of step 9.
  EXPECT_OK(Apply(MakeCommit(one, fence, 9)).status);
  EXPECT_EQ(job(id).current->first_step, 9);
  CheckpointReport corrupt = MakeOther(one, fence, CheckpointReport::Kind::kCorrupt, 5);
  corrupt.path = snapshot()->FindCheckpoint(1)->path;
  EXPECT_OK(Apply(corrupt).status);
  EXPECT_EQ(job(id).current->first_step, 9);
  EXPECT_EQ(job(id).current->last_step, 9);
  EXPECT_EQ(job(id).ledger.step, 9);
}

TEST_F(CheckpointsTest, WhatALeavingAttemptSavesIsNoCheckpointThatItAdopted) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5));
  ReportExit(one, fence, 0, {.signal = 9, .last_step = 5});
  Advance(absl::Seconds(1));
  fence = StartRanks(one, false).fence;
  ASSERT_EQ(job(id).current->first_step, 5);
  EXPECT_OK(Apply(ControlJob{.verb = ControlJob::Verb::kSuspend, .job_id = id, .actor = "user:ann"})
                .status);
  // It makes its first steps before its ranks agree to leave.
  EXPECT_OK(Apply(MakeReport(one, fence, 0, RankReport::Kind::kRunning)).status);
  ASSERT_EQ(state(id), JobState::kRecovering);
  EXPECT_OK(Apply(MakeCommit(one, fence, 8)).status);
  EXPECT_EQ(job(id).current->first_step, 5);
}

TEST_F(CheckpointsTest, AJobWhoseCheckpointsAllBrokeFailsAndNeverBeginsFromNothing) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5));
  AnswerVerify(one, false, "block 3 differs");
  EXPECT_EQ(state(id), JobState::kRunning) << "it may save another one";
  ReportExit(one, fence, 0, {.signal = 9, .last_step = 7});
  Advance(absl::Seconds(3));
  EXPECT_FALSE(WasSent<StartAssignment>(one));
  EXPECT_EQ(state(id), JobState::kFailed);
  EXPECT_EQ(job(id).failure_class, FailureClass::kCorruption);
  EXPECT_THAT(job(id).message, HasSubstr("the newest, of step 5, is CORRUPT (block 3 differs)"));
}

TEST_F(CheckpointsTest, WhatWasNeverFinishedIsWrittenOff) {
  Agent one = ConnectNew("worker-1", 1);
  Submit();
  const Fence fence = StartRanks(one).fence;
  Apply(MakeOther(one, fence, CheckpointReport::Kind::kBegin, 5));
  CheckpointReport failed = MakeOther(one, fence, CheckpointReport::Kind::kFailed, 5);
  failed.message = "disk full";
  EXPECT_OK(Apply(failed).status);
  EXPECT_EQ(ckpt(1), CheckpointState::kDeleted);
  EXPECT_THAT(snapshot()->FindCheckpoint(1)->message, HasSubstr("disk full"));
  Apply(MakeOther(one, fence, CheckpointReport::Kind::kBegin, 6));
  ReportExit(one, fence, 0, {.signal = 9});
  EXPECT_EQ(ckpt(2), CheckpointState::kDeleted);
}

TEST_F(CheckpointsTest, OldOnesGoOnlyAfterNewerOnesAreVerifiedAndTheBestStays) {
  Agent one = ConnectNew("worker-1", 1);
  Submit({.keep_last = 2});
  const Fence fence = StartRanks(one).fence;
  for (int step = 1; step <= 4; ++step) {
    EXPECT_OK(Apply(MakeCommit(one, fence, step, /*best=*/step == 1)).status);
  }
  EXPECT_FALSE(WasSent<DeleteAssignment>(one));
  EXPECT_EQ(AnswerVerify(one, true).checkpoint_id, 1u) << "it was the first to come";
  EXPECT_EQ(AnswerVerify(one, true).checkpoint_id, 4u) << "the newest";
  // 1 is the best; only 4 of the others is verified.
  EXPECT_FALSE(WasSent<DeleteAssignment>(one));
  EXPECT_EQ(AnswerVerify(one, true).checkpoint_id, 3u);
  EXPECT_FALSE(WasSent<VerifyAssignment>(one)) << "nobody needs 2 any more";
  const auto going = Take<DeleteAssignment>(one);
  EXPECT_EQ(going.checkpoint_id, 2u);
  EXPECT_EQ(ckpt(2), CheckpointState::kCommitted) << "until it is gone";
  DeleteReport report{.worker = one.name,
                      .incarnation = one.incarnation,
                      .event_seq = ++one.event_seq,
                      .outbox_seq = last_seq_,
                      .checkpoint_id = 2,
                      .ok = false,
                      .message = "busy"};
  EXPECT_OK(Apply(report).status);
  EXPECT_FALSE(WasSent<DeleteAssignment>(one)) << "not at once";
  for (int i = 0; i < 6; ++i) {
    clock_.Advance(absl::Seconds(5));
    ASSERT_OK(Beat(one).status);
  }
  Take<DeleteAssignment>(one);
  report.event_seq = ++one.event_seq;
  report.outbox_seq = last_seq_;
  report.ok = true;
  EXPECT_OK(Apply(report).status);
  EXPECT_EQ(ckpt(2), CheckpointState::kDeleted);
  EXPECT_EQ(ckpt(1), CheckpointState::kVerified);
}

TEST_F(CheckpointsTest, APersonRemovesOneOfAnEndedJobAndAnAgentDeletesItWhenOneIsThere) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  CommitVerified(one, fence, 5);
  CommitVerified(one, fence, 6);
  ReportExit(one, fence, 0, {.succeeded = true});
  ASSERT_EQ(state(id), JobState::kSucceeded);
  engine_->Disconnect(one.name, one.incarnation, one.link.get());
  EXPECT_OK(Remove(1));
  EXPECT_EQ(ckpt(1), CheckpointState::kVerified) << "until it is gone";
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->removed_by, "user:ann");
  Restart();
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->removed_by, "user:ann");
  EXPECT_OK(Remove(1)) << "once more";
  Agent reborn = MakeReborn(one);
  EXPECT_OK(Connect(reborn).status);
  EXPECT_EQ(AnswerDelete(reborn, "busy").checkpoint_id, 1u);
  EXPECT_EQ(ckpt(1), CheckpointState::kVerified);
  for (int i = 0; i < 7; ++i) {
    clock_.Advance(absl::Seconds(5));
    ASSERT_OK(Beat(reborn).status);
  }
  AnswerDelete(reborn);
  EXPECT_EQ(ckpt(1), CheckpointState::kDeleted);
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->message, "removed by user:ann");
  const uint64_t version = snapshot()->durable_version;
  EXPECT_OK(Remove(1));
  EXPECT_EQ(snapshot()->durable_version, version) << "asked twice it changes nothing more";
  EXPECT_EQ(ckpt(2), CheckpointState::kVerified);
}

TEST_F(CheckpointsTest, WhatIsNeededIsNotRemoved) {
  const absl::StatusCode refused = absl::StatusCode::kFailedPrecondition;
  EXPECT_THAT(Remove(1), StatusIs(absl::StatusCode::kNotFound));
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  Fence fence = StartRanks(one).fence;
  EXPECT_OK(Apply(MakeOther(one, fence, CheckpointReport::Kind::kBegin, 5)).status);
  EXPECT_THAT(Remove(1, true), StatusIs(refused, HasSubstr("is being written")));
  CommitVerified(one, fence, 5);
  EXPECT_OK(Apply(MakeCommit(one, fence, 6)).status);
  EXPECT_THAT(Remove(1), StatusIs(refused, HasSubstr("`muster ckpt rm 1 --force`")))
      << "the other one is not verified";
  AnswerVerify(one, true);

  ReportExit(one, fence, 0, {.signal = 9, .last_step = 6});
  Advance(absl::Seconds(1));
  fence = StartRanks(one, false).fence;
  EXPECT_THAT(Remove(2, true), StatusIs(refused, HasSubstr("may be what attempt 2 is loading")));
  EXPECT_OK(Apply(MakeReport(one, fence, 0, RankReport::Kind::kRunning)).status);

  const EventResult other = Apply(SubmitJob{
      .settings = ::muster::testing::MakeSettings(
          {.min_ranks = 9, .wait_for_capacity = true, .name = "other"}),
      .owner = "ann",
      .resume = ResumeRequest{.job_id = id, .which = ResumeRequest::Which::kStep, .step = 5}});
  ASSERT_OK(other.status);
  EXPECT_THAT(Remove(1, true), StatusIs(refused, HasSubstr("job 2 is to begin from; cancel")));
  ASSERT_OK(Cancel(other.job_id));

  EXPECT_OK(Pin(1));
  EXPECT_THAT(Remove(1, true), StatusIs(refused, HasSubstr("`muster ckpt unpin 1` first")));
  EXPECT_OK(Unpin(1));
  EXPECT_OK(Remove(1));
  EXPECT_THAT(Remove(2), StatusIs(refused, HasSubstr("is the last one"))) << "1 goes";
  EXPECT_OK(Remove(2, true));
  AnswerDelete(one);
  AnswerDelete(one);
  EXPECT_EQ(ckpt(1), CheckpointState::kDeleted);
  EXPECT_EQ(ckpt(2), CheckpointState::kDeleted);
}

// In one batch, where the lists of the snapshot are those of before.
TEST_F(CheckpointsTest, ARemovalAndASubmitThatBeginsFromItDoNotBothSucceed) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  CommitVerified(one, fence, 5);
  CommitVerified(one, fence, 6);
  const SubmitJob submit{
      .settings = ::muster::testing::MakeSettings(
          {.min_ranks = 9, .wait_for_capacity = true, .name = "other"}),
      .owner = "ann",
      .resume = ResumeRequest{.job_id = id, .which = ResumeRequest::Which::kStep, .step = 5}};
  const auto remove = [](uint64_t ckpt_id) {
    return ControlCheckpoint{
        .verb = ControlCheckpoint::Verb::kRemove, .checkpoint_id = ckpt_id, .actor = "user:ann"};
  };
  EventResult submitted;
  EventResult removed;
  const auto keep = [](EventResult& in) {
    return [&in](const EventResult& result) { in = result; };
  };
  engine_->Post(submit, keep(submitted));
  engine_->Post(remove(1), keep(removed));
  RunUntilIdle();
  ASSERT_OK(submitted.status);
  EXPECT_THAT(removed.status, StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_OK(Cancel(submitted.job_id));
  engine_->Post(remove(1), keep(removed));
  engine_->Post(submit, keep(submitted));
  RunUntilIdle();
  EXPECT_OK(removed.status);
  EXPECT_THAT(submitted.status, StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(CheckpointsTest, APinnedOneOutlivesRetentionAndARestart) {
  Agent one = ConnectNew("worker-1", 1);
  Submit({.keep_last = 1});
  const Fence fence = StartRanks(one).fence;
  CommitVerified(one, fence, 5);
  EXPECT_OK(Pin(1));
  EXPECT_OK(Pin(1));
  CommitVerified(one, fence, 6);
  CommitVerified(one, fence, 7);
  EXPECT_EQ(AnswerDelete(one).checkpoint_id, 2u);
  EXPECT_FALSE(WasSent<DeleteAssignment>(one));
  EXPECT_THAT(Pin(2), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is DELETED")));
  Restart();
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->pinned_by, "user:ann");
  EXPECT_OK(Connect(one).status);
  EXPECT_FALSE(WasSent<DeleteAssignment>(one));
  EXPECT_OK(Unpin(1));
  EXPECT_OK(Unpin(1));
  ASSERT_TRUE(WasSent<DeleteAssignment>(one));
  EXPECT_THAT(Pin(1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is being deleted")));
  EXPECT_EQ(AnswerDelete(one).checkpoint_id, 1u);
}

TEST_F(CheckpointsTest, APinComesBeforeADeletionThatWasPlannedBeforeIt) {
  Agent one = ConnectNew("worker-1", 1);
  Submit();
  const Fence fence = StartRanks(one).fence;
  CommitVerified(one, fence, 5);
  EXPECT_OK(Pin(1));
  EXPECT_OK(Apply(AssignCheckpointWork{.actions = {{.kind = AssignmentKind::kDelete,
                                                    .checkpoint_id = 1,
                                                    .worker = one.name}}})
                .status);
  EXPECT_FALSE(WasSent<DeleteAssignment>(one));
}

TEST_F(CheckpointsTest, AnotherAgentTakesOverWhenTheCaretakerIsGone) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5));
  ReportExit(one, fence, 0, {.succeeded = true});
  EXPECT_EQ(state(id), JobState::kSucceeded);
  ASSERT_TRUE(WasSent<VerifyAssignment>(one));
  Agent reborn = MakeReborn(one);
  Connect(reborn);
  AnswerVerify(reborn, true);
  EXPECT_EQ(ckpt(1), CheckpointState::kVerified);
}

TEST_F(CheckpointsTest, AVerificationCanBeAskedFor) {
  EXPECT_THAT(Apply(RequestVerify{.checkpoint_id = 1}).status,
              StatusIs(absl::StatusCode::kNotFound));
  Agent one = ConnectNew("worker-1", 1);
  Submit();
  const Fence fence = StartRanks(one).fence;
  Apply(MakeOther(one, fence, CheckpointReport::Kind::kBegin, 5));
  EXPECT_THAT(Apply(RequestVerify{.checkpoint_id = 1}).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("WRITING")));
  Apply(MakeCommit(one, fence, 5));
  AnswerVerify(one, true);
  EXPECT_OK(Apply(RequestVerify{.checkpoint_id = 1}).status);
  EXPECT_OK(Apply(RequestVerify{.checkpoint_id = 1}).status) << "one at a time";
  AnswerVerify(one, true);
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->rereads, 2u);
  engine_->Disconnect(one.name, one.incarnation, one.link.get());
  EXPECT_THAT(Apply(RequestVerify{.checkpoint_id = 1}).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no worker")));
}

TEST_F(CheckpointsTest, WhoCannotReadOneIsNotAskedAgainWhileAnotherIsThere) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t id = Submit();
  Agent& runs = WasSent<StartAssignment>(one) ? one : two;
  const Fence fence = StartRanks(runs).fence;
  Apply(MakeCommit(runs, fence, 5));
  Agent& first = WasSent<VerifyAssignment>(one) ? one : two;
  Agent& second = &first == &one ? two : one;
  Take<VerifyAssignment>(first, "Permission denied");
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->message,
            "worker " + first.name + " could not reread it: Permission denied");
  for (int i = 0; i < 10; ++i) {
    Advance(absl::Seconds(4));
    ASSERT_OK(Beat(one).status);
    ASSERT_OK(Beat(two).status);
  }
  EXPECT_FALSE(WasSent<VerifyAssignment>(first));
  AnswerVerify(second, true);
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->message, "");
  EXPECT_EQ(state(id), JobState::kRunning);
}

TEST_F(CheckpointsTest, ARefusedVerificationIsTriedAgainLater) {
  Agent one = ConnectNew("worker-1", 1);
  Submit();
  const Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5));
  Take<VerifyAssignment>(one, "busy");
  EXPECT_FALSE(WasSent<VerifyAssignment>(one));
  for (int i = 0; i < 6; ++i) {
    clock_.Advance(absl::Seconds(5));
    ASSERT_OK(Beat(one).status);
  }
  EXPECT_TRUE(WasSent<VerifyAssignment>(one));
}

}  // namespace
}  // namespace muster::controller
