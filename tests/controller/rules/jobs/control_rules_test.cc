// What people do with jobs that are there: hold, release, suspend, resume, requeue, cancel, update,
// whole arrays of them, and what limits do to them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/controller_fixture.h"
#include "tests/support/model_invariants.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::JobOptions;
using ::muster::testing::MakeSettings;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Verb = ControlJob::Verb;

class ControlRulesTest : public ::muster::testing::ControllerFixture {
 protected:
  void TearDown() override {
    EXPECT_THAT(::muster::testing::ModelFaults(*snapshot()), IsEmpty());
    if (HasFatalFailure()) return;
    // Whatever the test did is durable.
    const auto before = snapshot();
    Restart();
    before->jobs.ForEach([&](const Job& was) {
      const Job now = job(was.id);
      EXPECT_EQ(now.state, was.state);
      EXPECT_EQ(now.held, was.held);
      EXPECT_EQ(now.suspending, was.suspending);
      EXPECT_EQ(now.requeued_after, was.requeued_after);
      EXPECT_EQ(now.settings->priority, was.settings->priority);
    });
  }

  EventResult TryControl(uint64_t id, Verb verb, const std::string& request = "",
                         bool whole_array = false) {
    return Apply(ControlJob{.verb = verb,
                            .job_id = id,
                            .actor = "user:ann",
                            .whole_array = whole_array,
                            .request_id = request});
  }
  absl::Status Control(uint64_t id, Verb verb, const std::string& request = "") {
    return TryControl(id, verb, request).status;
  }
  EventResult TrySubmitWith(const SchedulingSettings& scheduling, const JobOptions& options = {},
                            std::optional<ArrayRange> array = std::nullopt) {
    auto settings = std::make_shared<JobSettings>(*MakeSettings(options));
    settings->scheduling = scheduling;
    return Apply(SubmitJob{
        .settings = settings, .owner = "ann", .idempotency_key = options.key, .array = array});
  }
  uint64_t SubmitWith(const SchedulingSettings& scheduling) {
    const EventResult result = TrySubmitWith(scheduling);
    EXPECT_OK(result.status);
    return result.job_id;
  }
  JobEvent LastEvent(uint64_t id) { return *job(id).events.back(); }
  // A job that runs on a new worker of this name.
  struct Running {
    uint64_t id = 0;
    Agent agent;
    Fence fence;
  };
  Running Run(const std::string& worker, const SchedulingSettings& scheduling = {}) {
    Running out;
    out.agent = ConnectNew(worker, 1);
    out.id = SubmitWith(scheduling);
    out.fence = StartRanks(out.agent).fence;
    EXPECT_EQ(state(out.id), JobState::kRunning);
    return out;
  }
  // Time goes by while the agent lives.
  void Pass(Agent& agent, absl::Duration time) {
    constexpr absl::Duration kBeat = absl::Seconds(5);
    for (absl::Duration passed; passed < time; passed += kBeat) {
      Advance(std::min(kBeat, time - passed));
      EXPECT_OK(Beat(agent).status);
    }
  }
  // Its ranks leave as they were asked to.
  void Leave(Running& running) {
    EXPECT_EQ(Take<StopAssignment>(running.agent).mode, StopMode::kSave);
    EXPECT_OK(ReportExit(running.agent, running.fence, 0, {.stopped = true}).status);
  }
};

TEST_F(ControlRulesTest, WhoJoinsTheQueueAgainIsAskedForItsQuota) {
  Running suspended = Run("worker-1");
  EXPECT_OK(Control(suspended.id, Verb::kSuspend));
  Leave(suspended);
  ASSERT_EQ(state(suspended.id), JobState::kSuspended);
  const uint64_t cancelled = SubmitWith({.hold = true});
  ASSERT_OK(Cancel(cancelled));
  // Nothing more fits in the queue.
  SubmitWith({.hold = true});
  ASSERT_OK(Apply(CordonWorker{.worker = "worker-1", .actor = "user:ann"}).status);
  SetProject project{.project = "default", .actor = "user:ann"};
  project.quota = Quota{.slots = {}, .queued = 1};
  ASSERT_OK(Apply(project).status);
  const uint64_t version = snapshot()->durable_version;
  EXPECT_THAT(Control(suspended.id, Verb::kResume),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("may have 1")));
  EXPECT_THAT(Control(cancelled, Verb::kRequeue, "r1"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("may have 1")));
  EXPECT_EQ(snapshot()->durable_version, version);
  EXPECT_EQ(state(suspended.id), JobState::kSuspended);
  EXPECT_EQ(state(cancelled), JobState::kCancelled);
  // A quota of slots that it can never fit in, likewise.
  project.quota = Quota{.slots = 0, .queued = {}};
  ASSERT_OK(Apply(project).status);
  EXPECT_THAT(Control(cancelled, Verb::kRequeue, "r1"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("over quota")));
  project.quota = Quota{.slots = {}, .queued = 2};
  ASSERT_OK(Apply(project).status);
  EXPECT_OK(Control(cancelled, Verb::kRequeue, "r1"));
  EXPECT_OK(Control(cancelled, Verb::kRequeue, "r1")) << "a repeat joins nothing";
  EXPECT_THAT(Control(suspended.id, Verb::kResume),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("may have 2")));
}

TEST_F(ControlRulesTest, AnArrayJoinsAsFarAsItsQuotaAllows) {
  const EventResult array =
      TrySubmitWith({}, {.wait_for_capacity = true}, ArrayRange{.first = 1, .last = 4});
  ASSERT_OK(
      Apply(CancelJob{.job_id = array.job_id, .actor = "user:ann", .whole_array = true}).status);
  SetProject project{.project = "default", .actor = "user:ann"};
  project.each_user = Quota{.slots = {}, .queued = 3};
  ASSERT_OK(Apply(project).status);
  const EventResult requeued = TryControl(array.job_id, Verb::kRequeue, "r1", /*whole_array=*/true);
  EXPECT_OK(requeued.status);
  EXPECT_EQ(requeued.jobs, 3u);
}

TEST_F(ControlRulesTest, TheRunTimeDoesNotFollowTheWallClock) {
  Running run = Run("worker-1", {.max_run_time = absl::Minutes(8)});
  clock_.JumpWall(absl::Hours(1000));
  Pass(run.agent, absl::Minutes(5));
  EXPECT_EQ(state(run.id), JobState::kRunning) << "it ran for five minutes";
  clock_.JumpWall(-absl::Hours(3000));
  Pass(run.agent, absl::Minutes(2));
  EXPECT_EQ(state(run.id), JobState::kRunning);
  Pass(run.agent, absl::Minutes(2));
  EXPECT_EQ(job(run.id).reason, Reason::kTimeLimitReached);
  Leave(run);
  EXPECT_EQ(job(run.id).failure_class, FailureClass::kTimeLimit);
}

TEST_F(ControlRulesTest, AHoldIsRecordedOnceAndSoIsARelease) {
  const uint64_t id = Submit();
  EXPECT_OK(Control(id, Verb::kHold));
  EXPECT_TRUE(job(id).held);
  EXPECT_EQ(LastEvent(id).reason, Reason::kHeld);
  EXPECT_EQ(LastEvent(id).actor, "user:ann");
  const size_t events = job(id).events.size();
  EXPECT_OK(Control(id, Verb::kHold));
  EXPECT_EQ(job(id).events.size(), events) << "a second hold changes nothing";
  const uint64_t version = snapshot()->durable_version;
  EXPECT_OK(Control(id, Verb::kRelease));
  EXPECT_FALSE(job(id).held);
  EXPECT_GT(snapshot()->durable_version, version) << "the scheduler looks again";
  EXPECT_EQ(LastEvent(id).reason, Reason::kReleased);
  EXPECT_OK(Control(id, Verb::kRelease));
  EXPECT_EQ(job(id).events.size(), events + 1);
}

TEST_F(ControlRulesTest, AJobMaySayThatItIsHeldFromTheStart) {
  SchedulingSettings held;
  held.hold = true;
  EXPECT_TRUE(job(SubmitWith(held)).held);
}

TEST_F(ControlRulesTest, WhatRunsIsNotHeldButSuspended) {
  Running running = Run("worker-1");
  EXPECT_THAT(Control(running.id, Verb::kHold),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("suspend it instead")));
  EXPECT_OK(Control(running.id, Verb::kSuspend));
  EXPECT_EQ(state(running.id), JobState::kRecovering);
  EXPECT_OK(Control(running.id, Verb::kSuspend));
  Leave(running);
  EXPECT_EQ(state(running.id), JobState::kSuspended);
  EXPECT_TRUE(worker("worker-1").pulse.holders.empty()) << "it gave its slots back";
  EXPECT_EQ(job(running.id).restarts, 0u);
  EXPECT_EQ(job(running.id).current->failure_class, FailureClass::kPreempted);
  EXPECT_OK(Control(running.id, Verb::kSuspend));
  Advance(absl::Minutes(5));
  EXPECT_EQ(state(running.id), JobState::kSuspended) << "and waits until it is resumed";
  EXPECT_OK(Control(running.id, Verb::kResume));
  EXPECT_OK(Control(running.id, Verb::kResume));
  EXPECT_EQ(job(running.id).attempt, 1u);
}

TEST_F(ControlRulesTest, ASuspensionOfWhatWaitsIsAtOnceAndAResumeInTimeUndoesIt) {
  const uint64_t waiting = Submit();
  EXPECT_OK(Control(waiting, Verb::kSuspend));
  EXPECT_EQ(state(waiting), JobState::kSuspended);
  EXPECT_THAT(Control(waiting, Verb::kHold), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(Cancel(waiting));

  Running running = Run("worker-1");
  EXPECT_OK(Control(running.id, Verb::kSuspend));
  EXPECT_OK(Control(running.id, Verb::kResume));
  EXPECT_FALSE(job(running.id).suspending);
  Leave(running);
  EXPECT_NE(state(running.id), JobState::kSuspended);
}

TEST_F(ControlRulesTest, ASuspendedJobThatEndsAnywayIsNotSuspended) {
  Running running = Run("worker-1");
  EXPECT_OK(Control(running.id, Verb::kSuspend));
  EXPECT_OK(ReportExit(running.agent, running.fence, 0, {.succeeded = true}).status);
  EXPECT_EQ(state(running.id), JobState::kSucceeded);
  EXPECT_FALSE(job(running.id).suspending);
}

TEST_F(ControlRulesTest, ARequeueOfWhatRunsIsFreeAndHappensOnceForOneRequest) {
  Running running = Run("worker-1");
  EXPECT_OK(Control(running.id, Verb::kRequeue, "r1"));
  Leave(running);
  EXPECT_EQ(job(running.id).attempt, 2u);
  StartRanks(running.agent);
  EXPECT_EQ(state(running.id), JobState::kRunning);
  EXPECT_EQ(job(running.id).restarts_in_row, 0u);
  EXPECT_OK(Control(running.id, Verb::kRequeue, "r1"));
  EXPECT_EQ(state(running.id), JobState::kRunning) << "the answer was lost, the deed was done";
  Restart();
  EXPECT_OK(Control(running.id, Verb::kRequeue, "r1"));
  EXPECT_EQ(state(running.id), JobState::kRunning);
  EXPECT_OK(Control(running.id, Verb::kRequeue, "r2"));
  EXPECT_EQ(state(running.id), JobState::kRecovering);
}

TEST_F(ControlRulesTest, ARequeueOfWhatHasEndedStartsAfreshAndKeepsThePast) {
  Running running = Run("worker-1");
  EXPECT_OK(ReportExit(running.agent, running.fence, 0,
                       {.failure_class = FailureClass::kDataError, .exit_code = 1})
                .status);
  EXPECT_EQ(state(running.id), JobState::kFailed);
  const size_t events = job(running.id).events.size();
  EXPECT_OK(Control(running.id, Verb::kRequeue, "r1"));
  StartRanks(running.agent);
  const Job again = job(running.id);
  EXPECT_EQ(again.state, JobState::kRunning);
  EXPECT_EQ(again.attempt, 2u);
  EXPECT_EQ(again.requeued_after, 1u);
  EXPECT_EQ(again.finished, absl::InfinitePast());
  EXPECT_EQ(again.failure_class, FailureClass::kNone);
  EXPECT_GT(again.events.size(), events);

  const uint64_t cancelled = Submit();
  EXPECT_OK(Cancel(cancelled));
  EXPECT_OK(Control(cancelled, Verb::kRequeue, "r1"));
  EXPECT_EQ(state(cancelled), JobState::kPending);
}

TEST_F(ControlRulesTest, WhatHasSucceededIsNotRequeuedAndWhatIsUnknownIsNotFound) {
  Running running = Run("worker-1");
  EXPECT_OK(ReportExit(running.agent, running.fence, 0, {.succeeded = true}).status);
  for (const Verb verb :
       {Verb::kHold, Verb::kRelease, Verb::kSuspend, Verb::kResume, Verb::kRequeue}) {
    EXPECT_THAT(Control(running.id, verb), StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_THAT(Control(99, verb), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job 99")));
  }
}

TEST_F(ControlRulesTest, AnUpdateTellsWhatItChangedAndNothingTwice) {
  const uint64_t id = Submit();
  UpdateJob update{.job_id = id, .actor = "user:bob", .priority = 7};
  update.max_run_time = absl::Hours(2);
  EXPECT_OK(Apply(update).status);
  EXPECT_EQ(job(id).settings->priority, 7);
  EXPECT_EQ(job(id).settings->scheduling.max_run_time, absl::Hours(2));
  EXPECT_EQ(LastEvent(id).reason, Reason::kUpdated);
  EXPECT_EQ(LastEvent(id).actor, "user:bob");
  EXPECT_EQ(LastEvent(id).message, "priority 0 -> 7, max_run_time none -> 2h");
  const size_t events = job(id).events.size();
  EXPECT_OK(Apply(update).status);
  EXPECT_EQ(job(id).events.size(), events);
  Restart();
  EXPECT_EQ(job(id).settings->scheduling.max_run_time, absl::Hours(2));
  EXPECT_OK(Cancel(id));
  update.priority = 8;
  EXPECT_THAT(Apply(update).status, StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(ControlRulesTest, AnUpdateToAPoolThatCannotHoldTheJobIsRefused) {
  ConnectNew("worker-1", 1);
  const uint64_t id = Submit({.min_ranks = 1, .priority = 3});
  UpdateJob update{.job_id = id, .actor = "user:ann"};
  update.pools = {{.name = "nowhere", .after = {}}};
  EXPECT_THAT(Apply(update).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("refused: ")));
  EXPECT_EQ(job(id).settings->needs.pools.front().name, "default");
}

TEST_F(ControlRulesTest, AnArrayIsOneSubmitOfManyJobs) {
  const ArrayRange range{.first = 3, .last = 7, .at_a_time = 2};
  const EventResult result = TrySubmitWith({}, {.key = "k"}, range);
  EXPECT_OK(result.status);
  EXPECT_EQ(result.jobs, 5u);
  EXPECT_EQ(snapshot()->jobs.size(), 5u);
  for (uint32_t i = 0; i < 5; ++i) {
    const Job task = job(result.job_id + i);
    EXPECT_EQ(task.array.array_id, result.job_id);
    EXPECT_EQ(task.array.index, 3 + i);
    EXPECT_EQ(task.array.at_a_time, 2u);
  }
  const EventResult again = TrySubmitWith({}, {.key = "k"}, range);
  EXPECT_OK(again.status);
  EXPECT_TRUE(again.already_existed);
  EXPECT_EQ(again.job_id, result.job_id);
  EXPECT_EQ(again.jobs, 5u);
  EXPECT_EQ(snapshot()->jobs.size(), 5u);
  Restart();
  EXPECT_EQ(job(result.job_id + 4).array.index, 7u);
  EXPECT_TRUE(TrySubmitWith({}, {.key = "k"}, range).already_existed);
}

TEST_F(ControlRulesTest, AVerbForAWholeArrayLeavesOutWhatItDoesNotFit) {
  const uint64_t first =
      TrySubmitWith({}, {}, ArrayRange{.first = 1, .last = 3, .at_a_time = 0}).job_id;
  EXPECT_OK(Cancel(first + 1));
  const EventResult held = TryControl(first + 2, Verb::kHold, "", /*whole_array=*/true);
  EXPECT_OK(held.status);
  EXPECT_EQ(held.jobs, 2u);
  EXPECT_EQ(held.job_id, first);
  EXPECT_TRUE(job(first).held);
  EXPECT_FALSE(job(first + 1).held);
  EXPECT_OK(Apply(CancelJob{.job_id = first, .actor = "user:ann", .whole_array = true}).status);
  EXPECT_EQ(state(first + 2), JobState::kCancelled);
  EXPECT_THAT(TryControl(first, Verb::kHold, "", true).status,
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(TryControl(Submit(), Verb::kHold, "", true).status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not of an array")));
}

TEST_F(ControlRulesTest, ADependencyIsKnownAndPossibleOrRefused) {
  SchedulingSettings after;
  after.after = {{.job_id = 42}};
  EXPECT_THAT(TrySubmitWith(after).status,
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("job 42")));
  const uint64_t other = Submit();
  EXPECT_OK(Cancel(other));
  after.after = {{.job_id = other}};
  EXPECT_THAT(TrySubmitWith(after).status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("refused: job 1 is CANCELLED, and this job waits for the "
                                 "success of job 1")));
  after.after = {{.job_id = other, .on = SchedulingSettings::On::kFailure}};
  EXPECT_OK(TrySubmitWith(after).status);
}

TEST_F(ControlRulesTest, AJobWhoseDependencyFailsIsCancelledWithThatSaid) {
  const uint64_t other = Submit();
  SchedulingSettings after;
  after.after = {{.job_id = other}};
  const uint64_t waiting = SubmitWith(after);
  EXPECT_OK(Control(waiting, Verb::kHold));
  EXPECT_OK(Cancel(other));
  Advance(absl::Seconds(2));
  EXPECT_EQ(state(waiting), JobState::kCancelled);
  EXPECT_EQ(job(waiting).reason, Reason::kDependencyFailed);
  EXPECT_THAT(job(waiting).message, HasSubstr("job 1 is CANCELLED"));
}

TEST_F(ControlRulesTest, AJobThatRanAsLongAsItMaySavesAndFails) {
  SchedulingSettings limits;
  limits.max_run_time = absl::Minutes(10);
  Running running = Run("worker-1", limits);
  Pass(running.agent, absl::Minutes(9));
  EXPECT_EQ(state(running.id), JobState::kRunning);
  // What an earlier attempt ran counts.
  EXPECT_OK(ReportExit(running.agent, running.fence, 0, {.signal = 9}).status);
  Pass(running.agent, absl::Seconds(5));
  running.fence = StartRanks(running.agent).fence;
  Pass(running.agent, absl::Seconds(70));
  EXPECT_EQ(state(running.id), JobState::kRecovering);
  Leave(running);
  EXPECT_EQ(state(running.id), JobState::kFailed);
  EXPECT_EQ(job(running.id).failure_class, FailureClass::kTimeLimit);
  EXPECT_THAT(job(running.id).message, HasSubstr("scheduling.max_run_time: 10m"));
  // A requeue gives it its time anew.
  EXPECT_OK(Control(running.id, Verb::kRequeue, "r1"));
  StartRanks(running.agent);
  Pass(running.agent, absl::Minutes(1));
  EXPECT_EQ(state(running.id), JobState::kRunning);
}

TEST_F(ControlRulesTest, ADeadlineEndsWhatWaitsAndWhatRuns) {
  SchedulingSettings limits;
  limits.deadline = clock_.Now() + absl::Minutes(1);
  Running running = Run("worker-1", limits);
  const uint64_t waiting = SubmitWith(limits);
  const uint64_t suspended = SubmitWith(limits);
  EXPECT_OK(Control(suspended, Verb::kSuspend));
  Pass(running.agent, absl::Minutes(1) + absl::Seconds(5));
  for (const uint64_t id : {waiting, suspended}) {
    EXPECT_EQ(state(id), JobState::kFailed);
    EXPECT_EQ(job(id).reason, Reason::kDeadlinePassed);
    EXPECT_EQ(job(id).failure_class, FailureClass::kTimeLimit);
  }
  EXPECT_EQ(state(running.id), JobState::kRecovering);
  Leave(running);
  EXPECT_EQ(state(running.id), JobState::kFailed);
  EXPECT_EQ(job(running.id).failure_class, FailureClass::kTimeLimit);
  EXPECT_THAT(TrySubmitWith(limits).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("refused: its deadline")));
}

TEST_F(ControlRulesTest, ADrainThatLetsJobsFinishOnlyKeepsNewOnesAway) {
  Running running = Run("worker-1");
  EXPECT_OK(
      Apply(CordonWorker{.worker = "worker-1", .actor = "user:ann", .let_finish = true}).status);
  EXPECT_EQ(WorkerStateName(worker("worker-1")), "draining");
  EXPECT_EQ(state(running.id), JobState::kRunning);
  EXPECT_FALSE(WasSent<StopAssignment>(running.agent));
  const uint64_t waits = Submit();
  EXPECT_EQ(state(waits), JobState::kPending);
  ReportExit(running.agent, running.fence, 0, {.succeeded = true});
  EXPECT_EQ(state(running.id), JobState::kSucceeded);
  EXPECT_EQ(WorkerStateName(worker("worker-1")), "drained");
  EXPECT_EQ(state(waits), JobState::kPending);
}

TEST_F(ControlRulesTest, ADrainMovesJobsFreeOfChargeUntilItIsTakenBack) {
  Running running = Run("worker-1");
  EXPECT_OK(
      Apply(CordonWorker{.worker = "worker-1", .reason = "disk", .actor = "user:ann"}).status);
  EXPECT_EQ(WorkerStateName(worker("worker-1")), "draining");
  EXPECT_OK(
      Apply(CordonWorker{.worker = "worker-1", .reason = "disk", .actor = "user:ann"}).status);
  Leave(running);
  EXPECT_EQ(state(running.id), JobState::kPending);
  EXPECT_EQ(job(running.id).restarts_in_row, 0u);
  EXPECT_EQ(WorkerStateName(worker("worker-1")), "drained");
  Agent other = ConnectNew("worker-2", 1);
  Advance(absl::Seconds(2));
  EXPECT_EQ(job(running.id).attempt, 2u);
  EXPECT_TRUE(WasSent<StartAssignment>(other));
  // A new life of the agent is drained too.
  Restart();
  EXPECT_TRUE(worker("worker-1").cordoned);
  EXPECT_EQ(worker("worker-1").cordon_reason, "disk");
  EXPECT_OK(Apply(CordonWorker{
                      .worker = "worker-1", .cordoned = false, .reason = "", .actor = "user:ann"})
                .status);
  EXPECT_FALSE(worker("worker-1").cordoned);
  EXPECT_THAT(Apply(CordonWorker{.worker = "nobody", .reason = "", .actor = "user:ann"}).status,
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nobody")));
}

TEST_F(ControlRulesTest, AnUpdateToTimesThatCannotBeKeptIsRefused) {
  const uint64_t id = Submit({.pool = "elsewhere", .wait_for_capacity = true});
  const auto update = [&](std::optional<absl::Time> deadline, std::optional<absl::Time> begin) {
    return Apply(UpdateJob{.job_id = id, .actor = "user:ann", .deadline = deadline, .begin = begin})
        .status;
  };
  const absl::Time now = clock_.Now();
  EXPECT_THAT(update(now - absl::Hours(1), std::nullopt),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has passed")));
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_OK(update(now + absl::Hours(2), now + absl::Hours(1)));
  EXPECT_THAT(update(now + absl::Minutes(30), std::nullopt),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("it may begin at")));
  EXPECT_THAT(update(std::nullopt, now + absl::Hours(3)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("it may begin at")));
  EXPECT_EQ(job(id).settings->scheduling.deadline, now + absl::Hours(2));
}

// A machine that started before its clock was set.
TEST_F(ControlRulesTest, AJobBeginsAtItsTimeAlsoByAClockThatIsSetOnMeanwhile) {
  const uint64_t id = Submit({.wait_for_capacity = true});
  ASSERT_OK(
      Apply(UpdateJob{.job_id = id, .actor = "user:ann", .begin = clock_.Now() + absl::Hours(5)})
          .status);
  Agent one = ConnectNew("worker-1", 1);
  EXPECT_EQ(state(id), JobState::kPending);
  clock_.JumpWall(absl::Hours(6));
  Pass(one, absl::Seconds(65));
  EXPECT_EQ(state(id), JobState::kStarting);
}

}  // namespace
}  // namespace muster::controller
