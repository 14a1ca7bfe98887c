// Checkpoint roots: who makes the marker, who is asked, what follows when a root is away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/model/draft.h"
#include "controller/policy/checkpoints/root_rules.h"
#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::kDefaultRoot;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kRoot[] = "/shared/ckpt";

class RootsTest : public ::muster::testing::ControllerFixture {
 protected:
  uint64_t SubmitThere(uint32_t ranks = 1) { return Submit({.min_ranks = ranks, .root = kRoot}); }
  // The first job, on an agent that is the first to see the root.
  Fence RunThere(Agent& agent) {
    SubmitThere();
    SeeRoot(agent);
    return StartRanks(agent).fence;
  }
  // Time passes, and the agents are there.
  void Wait(absl::Duration time, const std::vector<Agent*>& agents) {
    for (absl::Duration gone; gone < time; gone += absl::Seconds(2)) {
      Advance(absl::Seconds(2));
      for (Agent* agent : agents) EXPECT_OK(Beat(*agent).status);
    }
  }
  CheckpointState ckpt(uint64_t id) const { return snapshot()->FindCheckpoint(id)->state; }
  // A job saves step 5 under the root, which both see; who of them is to reread it.
  Agent& SaveAndFindVerifier(Agent& one, Agent& two) {
    SubmitThere();
    SeeRoot(one);
    SeeRoot(two);
    Agent& runs = WasSent<StartAssignment>(one) ? one : two;
    const Fence fence = StartRanks(runs).fence;
    Apply(MakeCommit(runs, fence, 5));
    return WasSent<VerifyAssignment>(one) ? one : two;
  }
  void AnswerMissing(Agent& agent) {
    const auto verify = Take<VerifyAssignment>(agent);
    EXPECT_OK(Apply(VerifyReport{.worker = agent.name,
                                 .incarnation = agent.incarnation,
                                 .event_seq = ++agent.event_seq,
                                 .outbox_seq = last_seq_,
                                 .checkpoint_id = verify.checkpoint_id,
                                 .ok = false,
                                 .message = "there is no folder",
                                 .missing = true})
                  .status);
  }
};

TEST_F(RootsTest, OneWorkerFindsOutAndOnlyThenAJobIsPlaced) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t id = SubmitThere();
  EXPECT_FALSE(WasSent<StartAssignment>(one) || WasSent<StartAssignment>(two));
  EXPECT_THAT(job(id).message, HasSubstr("its checkpoint root /shared/ckpt is not seen by"));
  const std::vector<RootToWatch> asked = TakeWatch(one);
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].path, kRoot);
  EXPECT_EQ(asked[0].identity, "");
  EXPECT_THAT(asked[0].claim, SizeIs(32));
  EXPECT_THAT(TakeWatch(two), IsEmpty()) << "one at a time";

  EXPECT_OK(SayRoots(one, {{kRoot, {.identity = asked[0].claim}}}).status);
  EXPECT_EQ(snapshot()->IdentityOf(kRoot), asked[0].claim);
  const StartAssignment start = StartRanks(one);
  EXPECT_EQ(start.root, kRoot);
  EXPECT_EQ(start.root_identity, asked[0].claim);
  // Now the others are asked whether they see this one.
  const std::vector<RootToWatch> others = TakeWatch(two);
  ASSERT_THAT(others, SizeIs(1));
  EXPECT_EQ(others[0].identity, asked[0].claim);
}

TEST_F(RootsTest, OfAnAgentThatIsTooOldToLookThatIsSaid) {
  Agent one = MakeAgent("worker-1", 1);
  one.identity = "";
  EXPECT_OK(Connect(one).status);
  const uint64_t id = SubmitThere();
  EXPECT_THAT(job(id).message,
              HasSubstr("worker-1 (its agent is too old to look for it: upgrade muster-worker)"));
  // Upgraded, it is another incarnation, and looks.
  Agent upgraded = MakeReborn(one);
  upgraded.identity = "said";
  EXPECT_OK(Connect(upgraded).status);
  SeeRoot(upgraded);
  EXPECT_EQ(StartRanks(upgraded).root, kRoot);
}

TEST_F(RootsTest, AMarkerThatIsThereIsTaken) {
  Agent one = ConnectNew("worker-1", 1);
  SubmitThere();
  EXPECT_OK(SayRoots(one, {{kRoot, {.identity = "ofanothercontroller"}}}).status);
  EXPECT_EQ(snapshot()->IdentityOf(kRoot), "ofanothercontroller");
  StartRanks(one);
}

TEST_F(RootsTest, AWorkerThatDoesNotSeeTheRootGetsNoneOfItsJobs) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  RunThere(one);
  const uint64_t second = SubmitThere();
  LoseRoot(two, kRoot);
  EXPECT_FALSE(WasSent<StartAssignment>(two));
  EXPECT_THAT(job(second).message,
              HasSubstr("its checkpoint root /shared/ckpt is not seen by worker worker-2 (its "
                        "marker is not there)"));
  const absl::StatusOr<Explanation> why = engine_->Explain(*snapshot(), second);
  ASSERT_OK(why);
  std::string text;
  for (const Blocker& blocker : why->blockers) text += blocker.message + "\n";
  EXPECT_THAT(text, HasSubstr("worker-2 (its marker is not there)"));
  // A job of another root is no matter.
  const uint64_t other = Submit();
  EXPECT_EQ(job(other).attempt, 1u);
}

TEST_F(RootsTest, AnElasticJobWaitsAMomentForAllToLook) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  Agent silent = ConnectNew("worker-3", 1);
  const muster::testing::JobOptions elastic = {.min_ranks = 1, .max_ranks = 2, .root = kRoot};
  const uint64_t id = Submit(elastic);
  const std::string identity = SeeRoot(one);
  EXPECT_EQ(job(id).attempt, 0u) << "the first to answer would get all of it";
  EXPECT_OK(SayRoots(two, {{kRoot, {.identity = identity}}}).status);
  EXPECT_EQ(job(id).attempt, 0u);
  Wait(kRootProbePatience, {&one, &two, &silent});
  ASSERT_EQ(job(id).attempt, 1u) << "one that says nothing holds up nobody";
  EXPECT_THAT(job(id).current->ranks, SizeIs(2));
}

// It sees the marker and may not read below it. The job came back to it until it was given up,
// while an agent elsewhere had reread its checkpoint and found it whole.
TEST_F(RootsTest, AJobLeavesTheWorkerThatCannotReadItsCheckpoints) {
  Agent one = ConnectNew("worker-1", 1);
  const Fence first = RunThere(one);
  Agent two = ConnectNew("worker-2", 1);
  SeeRoot(two);
  EXPECT_OK(Apply(MakeCommit(one, first, 5)).status);
  const Exit unreadable = {.failure_class = FailureClass::kCheckpointFailed,
                           .exit_code = 1,
                           .message = "model.safetensors: permission denied"};
  ReportExit(one, first, 0, unreadable);
  Wait(absl::Seconds(2), {&one, &two});
  EXPECT_FALSE(WasSent<StartAssignment>(one));
  const Fence second = StartRanks(two).fence;
  EXPECT_EQ(second.job_id, first.job_id);
  EXPECT_TRUE(worker("worker-1").failures.empty()) << "the root may be full";
}

TEST_F(RootsTest, AJobIsNotGivenUpOnOneWorkersWordWhileTheOtherOneIsBusy) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.max_restarts = 2, .root = kRoot});
  const std::string identity = SeeRoot(one);
  Fence fence = StartRanks(one).fence;
  Agent two = ConnectNew("worker-2", 1);
  EXPECT_OK(SayRoots(two, {{kRoot, {.identity = identity}}}).status);
  const uint64_t busy = Submit();
  const Fence other = StartRanks(two).fence;
  EXPECT_EQ(other.job_id, busy);
  const Exit unreadable = {.failure_class = FailureClass::kCheckpointFailed,
                           .exit_code = 1,
                           .message = "model.safetensors: permission denied"};
  for (int i = 0; i < 4; ++i) {
    ReportExit(one, fence, 0, unreadable);
    ASSERT_EQ(state(id), JobState::kPending) << job(id).message;
    for (int look = 0; look < 60 && !WasSent<StartAssignment>(one); ++look) {
      Wait(absl::Seconds(2), {&one, &two});
    }
    fence = StartRanks(one).fence;
  }
  ReportExit(two, other, 0, {.succeeded = true});
  ReportExit(one, fence, 0, unreadable);
  for (int look = 0; look < 60 && !WasSent<StartAssignment>(two); ++look) {
    Wait(absl::Seconds(2), {&one, &two});
  }
  fence = StartRanks(two).fence;
  EXPECT_EQ(fence.job_id, id);
  ReportExit(two, fence, 0, unreadable);
  EXPECT_EQ(state(id), JobState::kFailed) << "both have said so";
}

TEST_F(RootsTest, WhoSeesAnotherFolderThereIsUnfit) {
  Agent one = ConnectNew("worker-1", 1);
  SubmitThere();
  SeeRoot(one);
  const StartAssignment start = StartRanks(one);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t second = SubmitThere();
  EXPECT_OK(SayRoots(two, {{kRoot, {.identity = "another"}}}).status);
  EXPECT_FALSE(WasSent<StartAssignment>(two));
  EXPECT_EQ(job(second).attempt, 0u);
  EXPECT_NE(start.root_identity, "another");
}

TEST_F(RootsTest, AFullRootTakesNoJobsButItsCheckpointsAreLookedAfter) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = SubmitThere();
  const std::string identity = SeeRoot(one);
  const Fence fence = StartRanks(one).fence;
  EXPECT_OK(SayRoots(one, {{kRoot, {.identity = identity, .message = "no space left"}}}).status);
  EXPECT_OK(Apply(MakeCommit(one, fence, 5)).status);
  AnswerVerify(one, true);
  EXPECT_EQ(ckpt(1), CheckpointState::kVerified);
  ReportExit(one, fence, 0, {.signal = 9, .last_step = 7});
  EXPECT_EQ(job(id).current->failure_class, FailureClass::kStorageUnavailable);
  Wait(absl::Minutes(2), {&one});
  EXPECT_FALSE(WasSent<StartAssignment>(one));
  EXPECT_THAT(job(id).message, HasSubstr("its checkpoint root /shared/ckpt cannot be written by "
                                         "worker worker-1 (no space left)"));
  EXPECT_OK(SayRoots(one, {{kRoot, {.identity = identity}}}).status);
  EXPECT_EQ(StartRanks(one).fence.attempt, 2u);
}

TEST_F(RootsTest, WhenTheFirstCannotOrIsSilentAnotherFindsOut) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  Agent three = ConnectNew("worker-3", 1);
  const uint64_t id = SubmitThere();
  const std::string claim = TakeWatch(one).at(0).claim;
  EXPECT_OK(SayRoots(one, {{kRoot, {.message = "no space left"}}}).status);
  EXPECT_EQ(TakeWatch(two).at(0).claim, claim) << "whoever comes first gives it the same name";
  EXPECT_THAT(TakeWatch(one), IsEmpty()) << "no more its question";
  Wait(kClaimPatience, {&one, &two, &three});
  EXPECT_EQ(TakeWatch(three).at(0).claim, claim);
  EXPECT_OK(SayRoots(three, {{kRoot, {.identity = claim}}}).status);
  StartRanks(three);
  EXPECT_EQ(job(id).attempt, 1u);
}

// Of the others none may even have the folder: what it made there would be right for ever.
TEST_F(RootsTest, OnlyAWorkerThatAJobCouldBePlacedOnIsAsked) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = MakeAgent("worker-2", 1);
  two.facts.labels = {{"nfs", "true"}};
  EXPECT_OK(Connect(two).status);
  Submit({.selector = {{"nfs", "true"}}, .root = kRoot});
  EXPECT_THAT(TakeWatch(one), IsEmpty());
  EXPECT_THAT(TakeWatch(two), SizeIs(1));
}

TEST_F(RootsTest, WhatFinishedJobsSavedMustBeThereBeforeAMarkerIsMade) {
  looks_at_default_root_ = false;
  Agent one = ConnectNew("worker-1", 1);
  Submit();
  const Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5));
  ReportExit(one, fence, 0, {.succeeded = true});
  Submit({.root = kDefaultRoot});
  const std::vector<RootToWatch> asked = TakeWatch(one);
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_THAT(asked[0].witnesses, ElementsAre(snapshot()->FindCheckpoint(1)->path));
}

TEST_F(RootsTest, WhatIsKnownOfARootOutlivesTheController) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = SubmitThere();
  const std::string identity = SeeRoot(one);
  const StartAssignment start = StartRanks(one);
  Restart();
  EXPECT_EQ(snapshot()->IdentityOf(kRoot), identity);
  EXPECT_OK(Connect(one).status);
  EXPECT_EQ(state(id), JobState::kRunning);
  EXPECT_EQ(TakeWatch(one).at(0).identity, identity) << "it says anew what it sees";
  const uint64_t second = SubmitThere();
  ReportExit(one, start.fence, 0, {.succeeded = true});
  EXPECT_EQ(job(second).attempt, 0u) << "not before it has said so";
  EXPECT_OK(SayRoots(one, {{kRoot, {.identity = identity}}}).status);
  EXPECT_EQ(job(second).attempt, 1u);
}

TEST_F(RootsTest, BeforeAMarkerIsMadeACheckpointThatShouldBeThereIsNamed) {
  Agent one = ConnectNew("worker-1", 1);
  const Fence fence = RunThere(one);
  Apply(MakeCommit(one, fence, 5));
  const std::string path = snapshot()->FindCheckpoint(1)->path;
  // As a database of an older version, which knows no roots.
  Draft draft(*snapshot());
  draft.EditRootInUse(kRoot).claimer.clear();
  draft.EditPulse(1).roots = nullptr;
  Snapshot older = *draft.Finish();
  older.roots = {};
  const RootPlan plan = PlanRoots(older, clock_.SinceBoot());
  ASSERT_THAT(plan.event.claims, SizeIs(1));
  Draft claimed(older);
  claimed.EditRootInUse(kRoot).claimer = "worker-1";
  claimed.EditRootInUse(kRoot).claim = "fresh";
  claimed.EditRootInUse(kRoot).claimed_at = clock_.SinceBoot();
  const RootPlan ask = PlanRoots(*claimed.Finish(), clock_.SinceBoot());
  ASSERT_THAT(ask.event.asks, SizeIs(1));
  EXPECT_THAT(ask.event.asks[0].roots.at(0).witnesses, ElementsAre(path));
}

TEST_F(RootsTest, ARootThatVanishesChargesNothingAndTheJobGoesOnWhenItIsBack) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.max_restarts = 0, .root = kRoot});
  const std::string identity = SeeRoot(one);
  Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5));
  LoseRoot(one, kRoot);
  EXPECT_EQ(state(id), JobState::kRunning) << "it trains on";
  ReportExit(one, fence, 0,
             {.failure_class = FailureClass::kStorageUnavailable,
              .exit_code = 1,
              .last_step = 7,
              .message = "its marker is not there"});
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_EQ(job(id).failure_class, FailureClass::kStorageUnavailable);
  EXPECT_TRUE(job(id).charged.empty());
  EXPECT_THAT(job(id).message, HasSubstr("free of charge"));
  Wait(absl::Minutes(2), {&one});
  EXPECT_EQ(job(id).attempt, 1u);
  EXPECT_THAT(job(id).message, HasSubstr("its checkpoint root /shared/ckpt is not seen by"));
  EXPECT_EQ(ckpt(1), CheckpointState::kCommitted);
  EXPECT_OK(SayRoots(one, {{kRoot, {.identity = identity}}}).status);
  const StartAssignment again = StartRanks(one);
  ASSERT_THAT(again.resume, SizeIs(1));
  EXPECT_EQ(again.resume[0].step, 5);
}

TEST_F(RootsTest, WhatFailsOfARootThatIsAwayIsTheRootsFault) {
  for (const FailureClass kind :
       {FailureClass::kApplication, FailureClass::kCheckpointFailed, FailureClass::kCorruption,
        FailureClass::kDataError, FailureClass::kStartFailed}) {
    SCOPED_TRACE(FailureClassName(kind));
    Agent one = ConnectNew(absl::StrCat("worker-", FailureClassName(kind)), 1);
    const uint64_t id = Submit({.max_restarts = 0, .root = kRoot});
    SeeRoot(one);
    const Fence fence = StartRanks(one).fence;
    LoseRoot(one, kRoot);
    ReportExit(one, fence, 0, {.failure_class = kind, .exit_code = 1});
    EXPECT_EQ(job(id).failure_class, FailureClass::kStorageUnavailable);
    EXPECT_EQ(state(id), JobState::kPending);
    EXPECT_TRUE(worker(one.name).failures.empty());
    EXPECT_OK(Cancel(id));
    EXPECT_OK(Apply(CordonWorker{.worker = one.name, .actor = "user:ann"}).status);
  }
}

TEST_F(RootsTest, WhatFailsWhileTheRootIsSeenIsChargedAsBefore) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.max_restarts = 0, .root = kRoot});
  SeeRoot(one);
  const Fence fence = StartRanks(one).fence;
  ReportExit(one, fence, 0, {.failure_class = FailureClass::kCheckpointFailed, .exit_code = 1});
  EXPECT_EQ(state(id), JobState::kFailed);
}

TEST_F(RootsTest, CheckpointsAreReadWhereTheRootIsSeen) {
  Agent one = ConnectNew("worker-1", 1);
  const Fence fence = RunThere(one);
  Agent two = ConnectNew("worker-2", 1);
  LoseRoot(two, kRoot);
  Apply(MakeCommit(one, fence, 5));
  EXPECT_FALSE(WasSent<VerifyAssignment>(two));
  const auto verify = Take<VerifyAssignment>(one);
  EXPECT_EQ(verify.root, kRoot);
  EXPECT_EQ(verify.root_identity, snapshot()->IdentityOf(kRoot));
}

// ---- second opinions ----

TEST_F(RootsTest, ABrokenCheckpointIsReadByAnotherWorkerBeforeItIsCalledCorrupt) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  const uint64_t id = SubmitThere();
  SeeRoot(one);
  SeeRoot(two);
  Agent& runs = WasSent<StartAssignment>(one) ? one : two;
  Agent& idle = &runs == &one ? two : one;
  const Fence fence = StartRanks(runs).fence;
  Apply(MakeCommit(runs, fence, 5));
  Agent& first = WasSent<VerifyAssignment>(runs) ? runs : idle;
  Agent& second = &first == &runs ? idle : runs;
  AnswerVerify(first, false, "block 3 differs");
  EXPECT_EQ(ckpt(1), CheckpointState::kCommitted) << "one machine's word";
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->rereads, 0u);
  AnswerVerify(second, false, "block 3 differs here too");
  EXPECT_EQ(ckpt(1), CheckpointState::kCorrupt);
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->rereads, 1u);
  EXPECT_EQ(state(id), JobState::kRunning);
}

TEST_F(RootsTest, RightAfterAStartTheOtherWorkersWordIsAwaited) {
  Agent one = ConnectNew("worker-1", 1);
  const Fence fence = RunThere(one);
  Apply(MakeCommit(one, fence, 5));
  Agent two = ConnectNew("worker-2", 1);
  const std::string identity = SeeRoot(two);
  Restart();
  EXPECT_OK(Connect(one).status);
  EXPECT_OK(SayRoots(one, {{kRoot, {.identity = identity}}}).status);
  Advance(absl::Seconds(1));
  AnswerVerify(one, false, "block 3 differs");
  EXPECT_EQ(ckpt(1), CheckpointState::kCommitted) << "worker-2 has not come back yet";
  EXPECT_OK(Connect(two).status);
  EXPECT_OK(SayRoots(two, {{kRoot, {.identity = identity}}}).status);
  Wait(absl::Minutes(1), {&one, &two});
  AnswerVerify(two, true);
  EXPECT_EQ(ckpt(1), CheckpointState::kVerified);
}

TEST_F(RootsTest, WhoIsLostIsNotAwaited) {
  Agent one = ConnectNew("worker-1", 1);
  const Fence fence = RunThere(one);
  Agent two = ConnectNew("worker-2", 1);
  SeeRoot(two);
  Wait(absl::Minutes(5), {&one});
  Apply(MakeCommit(one, fence, 5));
  AnswerVerify(one, false, "block 3 differs");
  EXPECT_EQ(ckpt(1), CheckpointState::kCorrupt);
}

TEST_F(RootsTest, ASecondReadingThatFindsItWholeSettlesIt) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = SubmitThere();
  SeeRoot(one);
  Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5));
  AnswerVerify(one, true);
  EXPECT_EQ(ckpt(1), CheckpointState::kVerified);
  Agent two = ConnectNew("worker-2", 1);
  SeeRoot(two);
  ReportExit(one, fence, 0, {.signal = 9, .last_step = 7});
  Advance(absl::Seconds(1));
  Agent& runs = WasSent<StartAssignment>(one) ? one : two;
  Agent& other = &runs == &one ? two : one;
  fence = StartRanks(runs, false).fence;
  CheckpointReport corrupt = MakeCommit(runs, fence, 5);
  corrupt.kind = CheckpointReport::Kind::kCorrupt;
  corrupt.path = snapshot()->FindCheckpoint(1)->path;
  corrupt.message = "block 3 differs";
  EXPECT_OK(Apply(corrupt).status);
  EXPECT_EQ(ckpt(1), CheckpointState::kVerified);
  AnswerVerify(other, true);
  EXPECT_EQ(ckpt(1), CheckpointState::kVerified);
  EXPECT_FALSE(snapshot()->FindCheckpoint(1)->doubt.has_value());
  EXPECT_EQ(state(id), JobState::kStarting);
}

TEST_F(RootsTest, ADoubtOutlivesTheController) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  Agent& first = SaveAndFindVerifier(one, two);
  AnswerVerify(first, false, "block 3 differs");
  const auto doubt = snapshot()->FindCheckpoint(1)->doubt;
  ASSERT_TRUE(doubt.has_value());
  Restart();
  ASSERT_TRUE(snapshot()->FindCheckpoint(1)->doubt.has_value());
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->doubt->worker, doubt->worker);
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->doubt->message, doubt->message);
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->doubt->missing, doubt->missing);
}

TEST_F(RootsTest, WhatIsNotThereIsGoneOnlyWhenItIsSaidTwice) {
  Agent one = ConnectNew("worker-1", 1);
  const Fence fence = RunThere(one);
  Apply(MakeCommit(one, fence, 5));
  AnswerMissing(one);
  EXPECT_EQ(ckpt(1), CheckpointState::kCommitted);
  EXPECT_FALSE(WasSent<VerifyAssignment>(one)) << "a network file system may show it later";
  Wait(absl::Minutes(1), {&one});
  AnswerMissing(one);
  EXPECT_EQ(ckpt(1), CheckpointState::kDeleted);
  EXPECT_EQ(snapshot()->FindCheckpoint(1)->message, "there is no folder");
  EXPECT_EQ(snapshot()->counters.checkpoints_corrupt, 0u);
}

TEST_F(RootsTest, ReadingsOfDifferentKindsDoNotBearEachOtherOut) {
  Agent one = ConnectNew("worker-1", 1);
  Agent two = ConnectNew("worker-2", 1);
  Agent& first = SaveAndFindVerifier(one, two);
  Agent& second = &first == &one ? two : one;
  AnswerVerify(first, false, "block 3 differs");
  AnswerMissing(second);
  EXPECT_EQ(ckpt(1), CheckpointState::kCommitted);
  Wait(absl::Minutes(1), {&one, &two});
  AnswerMissing(first);
  EXPECT_EQ(ckpt(1), CheckpointState::kDeleted) << "two have found nothing";
}

TEST_F(RootsTest, AnAgentThatSaysNothingOfRootsIsNotAwaited) {
  Agent one = ConnectNew("worker-1", 1);
  const Fence fence = RunThere(one);
  Agent two = MakeAgent("worker-2", 1);
  two.identity.clear();
  EXPECT_OK(Connect(two).status);
  Apply(MakeCommit(one, fence, 5));
  AnswerVerify(one, false, "block 3 differs");
  EXPECT_EQ(ckpt(1), CheckpointState::kCorrupt);
}

// Its spec says nothing of checkpoints, so that it began anywhere.
TEST_F(RootsTest, ACommandThatHasSavedCountsOnItsRoot) {
  Agent blind = ConnectNew("worker-1", 1);
  const uint64_t other = Submit();
  const Fence others = StartRanks(blind).fence;
  Agent one = ConnectNew("worker-2", 1);
  const uint64_t id = Submit();
  const StartAssignment first = StartRanks(one);
  EXPECT_EQ(first.root, "");
  EXPECT_OK(Apply(MakeCommit(one, first.fence, 5)).status);
  AnswerVerify(blind, true);
  LoseRoot(blind, kDefaultRoot);
  ReportExit(blind, others, 0, {.succeeded = true});
  EXPECT_EQ(state(other), JobState::kSucceeded);
  ReportExit(one, first.fence, 0, {.signal = 9, .last_step = 7});
  Wait(absl::Seconds(2), {&one, &blind});
  EXPECT_FALSE(WasSent<StartAssignment>(blind));
  const StartAssignment second = StartRanks(one);
  EXPECT_EQ(second.fence.job_id, id);
  EXPECT_EQ(second.root, kDefaultRoot);
  EXPECT_EQ(second.root_identity, snapshot()->IdentityOf(kDefaultRoot));
  EXPECT_NE(second.root_identity, "");
  Restart();
  EXPECT_EQ(job(id).settings->needs.root, kDefaultRoot);
}

// It would spend its restarts within seconds, on a folder that somebody took away for a moment.
TEST_F(RootsTest, AJobThatHasOnlyACheckpointInDoubtWaitsForTheNextReading) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = SubmitThere();
  SeeRoot(one);
  Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5));
  AnswerVerify(one, true);
  ReportExit(one, fence, 0, {.signal = 9, .last_step = 7});
  Wait(absl::Seconds(2), {&one});
  fence = StartRanks(one, false).fence;
  CheckpointReport unread = MakeCommit(one, fence, 5);
  unread.kind = CheckpointReport::Kind::kUnread;
  unread.path = snapshot()->FindCheckpoint(1)->path;
  EXPECT_OK(Apply(unread).status);
  ReportExit(one, fence, 0, {.failure_class = FailureClass::kCheckpointFailed});
  AnswerMissing(one);
  EXPECT_THAT(job(id).message, HasSubstr("what it could resume from is read again meanwhile"));
  Wait(absl::Seconds(32), {&one});
  EXPECT_EQ(state(id), JobState::kPending);
  AnswerMissing(one);
  EXPECT_EQ(ckpt(1), CheckpointState::kDeleted);
  Wait(absl::Seconds(20), {&one});
  EXPECT_EQ(state(id), JobState::kFailed);
  EXPECT_THAT(job(id).message, HasSubstr("none of its checkpoints can be restored"));
}

// ---- a root that is gone for good: its marker is put into an empty folder in its place ----

TEST_F(RootsTest, AJobWhoseCheckpointsAreGoneWithTheirRootFailsOnceAnEmptyFolderTakesItsPlace) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = SubmitThere();
  const std::string identity = SeeRoot(one);
  Fence fence = StartRanks(one).fence;
  Apply(MakeCommit(one, fence, 5));
  AnswerVerify(one, true);
  LoseRoot(one, kRoot);
  ReportExit(one, fence, 0, {.signal = 9, .last_step = 7});
  Wait(absl::Minutes(2), {&one});
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_OK(SayRoots(one, {{kRoot, {.identity = identity}}}).status);
  fence = StartRanks(one, false).fence;
  CheckpointReport unread = MakeCommit(one, fence, 5);
  unread.kind = CheckpointReport::Kind::kUnread;
  unread.path = snapshot()->FindCheckpoint(1)->path;
  EXPECT_OK(Apply(unread).status);
  ReportExit(one, fence, 0, {.failure_class = FailureClass::kCheckpointFailed});
  AnswerMissing(one);
  Wait(absl::Seconds(32), {&one});
  AnswerMissing(one);
  EXPECT_EQ(ckpt(1), CheckpointState::kDeleted);
  Wait(absl::Seconds(20), {&one});
  EXPECT_EQ(state(id), JobState::kFailed);
  EXPECT_THAT(job(id).message, HasSubstr("submit it anew"));
  EXPECT_EQ(snapshot()->roots_in_use->count(kRoot), 0u) << "nobody looks for it any more";
}

TEST_F(RootsTest, WhatEndedJobsLeftUnreadInARootThatIsGoneIsDeletedOnceAnEmptyFolderTakesItsPlace) {
  Agent one = ConnectNew("worker-1", 1);
  SubmitThere();
  const std::string identity = SeeRoot(one);
  const Fence fence = StartRanks(one).fence;
  LoseRoot(one, kRoot);
  Apply(MakeCommit(one, fence, 5));
  ReportExit(one, fence, 0, {.succeeded = true});
  EXPECT_EQ(state(1), JobState::kSucceeded);
  Wait(absl::Minutes(2), {&one});
  EXPECT_EQ(ckpt(1), CheckpointState::kCommitted);
  EXPECT_EQ(snapshot()->roots_in_use->count(kRoot), 1u);
  EXPECT_OK(SayRoots(one, {{kRoot, {.identity = identity}}}).status);
  AnswerMissing(one);
  Wait(absl::Minutes(1), {&one});
  AnswerMissing(one);
  EXPECT_EQ(ckpt(1), CheckpointState::kDeleted);
  EXPECT_EQ(snapshot()->roots_in_use->count(kRoot), 0u);
}

TEST_F(RootsTest, SoManyRootsAreInUseAtATime) {
  for (size_t i = 0; i < kMaxRootsInUse; ++i) {
    EXPECT_OK(TrySubmit({.wait_for_capacity = true, .root = absl::StrCat("/r/", i)}).status);
  }
  const EventResult refused = TrySubmit({.wait_for_capacity = true, .root = "/r/more"});
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status.message(), HasSubstr("checkpoint.url"));
  EXPECT_OK(TrySubmit({.wait_for_capacity = true, .root = "/r/7"}).status);
  EXPECT_OK(Cancel(1));
  EXPECT_OK(TrySubmit({.wait_for_capacity = true, .root = "/r/more"}).status);
}

}  // namespace
}  // namespace muster::controller
