// Jobs whose data workers look at before a rank is placed there: who is asked when, what follows
// from what they say, and what people are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/policy/explain/explain.h"
#include "controller/policy/health/data_sight.h"
#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kData[] = "imagenet";

class DataLooksTest : public ::muster::testing::ControllerFixture {
 protected:
  Agent ConnectLooking(const std::string& name, uint32_t slots) {
    Agent agent = MakeAgent(name, slots);
    agent.checks_data = true;
    EXPECT_OK(Connect(agent).status);
    return agent;
  }
  uint64_t SubmitWithData(uint32_t ranks = 1) {
    return Submit({.min_ranks = ranks, .spec = "{\"name\": \"this one\"}", .data = kData});
  }
  // What the agent was asked to look at since.
  std::vector<CheckDataAssignment> TakeQuestions(Agent& agent) {
    std::vector<CheckDataAssignment> questions;
    std::erase_if(agent.link->sent, [&](const Assignment& assignment) {
      const auto* check = std::get_if<CheckDataAssignment>(&assignment.body);
      if (check != nullptr) questions.push_back(*check);
      return check != nullptr;
    });
    return questions;
  }
  void Say(Agent& agent, const CheckDataAssignment& asked, const std::string& fault,
           const std::string& error = "", const std::string& fingerprint = "") {
    DataVerdict verdict{.key = asked.key,
                        .number = asked.number,
                        .fault = fault,
                        .error = error,
                        .fingerprint = fingerprint};
    EXPECT_OK(Apply(WorkerHeartbeat{.worker = agent.name,
                                    .incarnation = agent.incarnation,
                                    .ranks = agent.alive,
                                    .data = {std::move(verdict)}})
                  .status);
  }
  // Answers the one question that it has.
  void Answer(Agent& agent, const std::string& fault, const std::string& error = "",
              const std::string& fingerprint = "") {
    const std::vector<CheckDataAssignment> asked = TakeQuestions(agent);
    ASSERT_THAT(asked, SizeIs(1)) << agent.name;
    Say(agent, asked[0], fault, error, fingerprint);
  }
  // Time passes, and the agents are there.
  void Wait(absl::Duration time, const std::vector<Agent*>& agents) {
    for (absl::Duration gone; gone < time; gone += absl::Seconds(2)) {
      Advance(absl::Seconds(2));
      for (Agent* agent : agents) EXPECT_OK(Beat(*agent).status);
    }
  }
  void Finish(Agent& agent, const Fence& fence) {
    EXPECT_OK(ReportExit(agent, fence, 0, {.succeeded = true}).status);
  }
};

TEST_F(DataLooksTest, AJobIsPlacedOnceItsWorkerHasFoundItsDataSound) {
  Agent one = ConnectLooking("worker-1", 1);
  const uint64_t id = SubmitWithData();
  EXPECT_FALSE(WasSent<StartAssignment>(one));
  EXPECT_EQ(job(id).message, "its data are being looked at by worker worker-1");
  const std::vector<CheckDataAssignment> asked = TakeQuestions(one);
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].key, kData);
  EXPECT_EQ(asked[0].spec, "{\"name\": \"this one\"}");
  Beat(one);
  EXPECT_THAT(TakeQuestions(one), IsEmpty()) << "asked once";
  EXPECT_FALSE(WasSent<StartAssignment>(one));
  Say(one, asked[0], "");
  EXPECT_EQ(StartRanks(one).fence.job_id, id);
}

TEST_F(DataLooksTest, OnlyAsManyWorkersAreAskedAsTheJobNeeds) {
  Agent one = ConnectLooking("worker-1", 2);
  Agent two = ConnectLooking("worker-2", 2);
  Agent three = ConnectLooking("worker-3", 2);
  SubmitWithData(/*ranks=*/4);
  const size_t asked =
      TakeQuestions(one).size() + TakeQuestions(two).size() + TakeQuestions(three).size();
  EXPECT_EQ(asked, 2u);
}

TEST_F(DataLooksTest, JobsWithTheSameDataAreServedByOneLook) {
  Agent one = ConnectLooking("worker-1", 3);
  for (int i = 0; i < 3; ++i) SubmitWithData();
  Answer(one, "");
  for (int i = 0; i < 3; ++i) StartRanks(one);
  EXPECT_THAT(TakeQuestions(one), IsEmpty());
}

TEST_F(DataLooksTest, AnAgentThatDoesNotLookGetsItsRanksAsEver) {
  Agent old = ConnectNew("worker-1", 1);
  SubmitWithData();
  EXPECT_THAT(TakeQuestions(old), IsEmpty());
  StartRanks(old);
}

TEST_F(DataLooksTest, SlotsAreKeptForTheJobWhileItsDataAreLookedAt) {
  Agent one = ConnectLooking("worker-1", 1);
  const uint64_t first = SubmitWithData();
  const uint64_t second = Submit({});
  EXPECT_FALSE(WasSent<StartAssignment>(one));
  Answer(one, "");
  EXPECT_EQ(StartRanks(one).fence.job_id, first);
  EXPECT_EQ(state(second), JobState::kPending);
}

TEST_F(DataLooksTest, AWorkerWithoutTheDataGetsNoneOfTheirJobsAndThatIsSaid) {
  Agent one = ConnectLooking("worker-1", 2);
  Agent two = ConnectLooking("worker-2", 2);
  const uint64_t id = SubmitWithData(/*ranks=*/2);
  Agent& asked = WasSent<CheckDataAssignment>(one) ? one : two;
  Agent& other = &asked == &one ? two : one;
  Answer(asked, "missing", "/data/imagenet is not there");
  Answer(other, "");
  EXPECT_EQ(StartRanks(other).fence.job_id, id);
  // The next one waits for the worker that has the data.
  const uint64_t next = SubmitWithData(/*ranks=*/2);
  EXPECT_EQ(state(next), JobState::kPending);
  EXPECT_THAT(job(next).message, AllOf(HasSubstr("its data are not seen by worker " + asked.name),
                                       HasSubstr("(missing: /data/imagenet is not there)")));
  const Explanation why =
      Explain(*snapshot(), next, {.now = clock_.SinceBoot(), .wall = clock_.Now()});
  std::string blockers;
  for (const Blocker& blocker : why.blockers) blockers += blocker.message + "\n";
  EXPECT_THAT(blockers, HasSubstr(asked.name + " (missing: /data/imagenet is not there)"));
  EXPECT_FALSE(WasSent<StartAssignment>(asked));
}

TEST_F(DataLooksTest, AFaultIsLookedAtAgainLaterAndLater) {
  Agent one = ConnectLooking("worker-1", 1);
  const uint64_t id = SubmitWithData();
  absl::Duration wait = kFirstDataRetry;
  for (int look = 0; look < 7; ++look) {
    Answer(one, "unavailable", "the server is away");
    Wait(wait - absl::Seconds(4), {&one});
    EXPECT_THAT(TakeQuestions(one), IsEmpty()) << look;
    EXPECT_THAT(job(id).message, HasSubstr("unavailable: the server is away"));
    Wait(absl::Seconds(8), {&one});
    EXPECT_TRUE(WasSent<CheckDataAssignment>(one)) << look;
    wait = std::min(2 * wait, kLongestDataRetry);
  }
  EXPECT_EQ(state(id), JobState::kPending) << "storage that is away ends no job";
  Answer(one, "");
  StartRanks(one);
}

TEST_F(DataLooksTest, AVerdictIsAskedForAnewWhenItIsOld) {
  Agent one = ConnectLooking("worker-1", 1);
  SubmitWithData();
  Answer(one, "");
  Finish(one, StartRanks(one).fence);
  SubmitWithData();
  EXPECT_THAT(TakeQuestions(one), IsEmpty()) << "it still holds";
  Finish(one, StartRanks(one).fence);
  Wait(kDataVerdictLasts, {&one});
  EXPECT_THAT(TakeQuestions(one), IsEmpty()) << "nobody needs it";
  SubmitWithData();
  EXPECT_FALSE(WasSent<StartAssignment>(one));
  Answer(one, "");
  StartRanks(one);
}

TEST_F(DataLooksTest, AVerdictIsOfOneStreamAlone) {
  Agent one = ConnectLooking("worker-1", 1);
  SubmitWithData();
  const std::vector<CheckDataAssignment> before = TakeQuestions(one);
  ASSERT_THAT(before, SizeIs(1));
  EXPECT_OK(Connect(one).status);
  const std::vector<CheckDataAssignment> after = TakeQuestions(one);
  ASSERT_THAT(after, SizeIs(1));
  Say(one, after[0], "");
  Finish(one, StartRanks(one).fence);
  EXPECT_OK(Connect(one).status);
  SubmitWithData();
  EXPECT_TRUE(WasSent<CheckDataAssignment>(one));
}

TEST_F(DataLooksTest, ARestartedControllerAsksAgain) {
  Agent one = ConnectLooking("worker-1", 1);
  const uint64_t id = SubmitWithData();
  Restart();
  EXPECT_OK(Connect(one).status);
  Answer(one, "");
  EXPECT_EQ(StartRanks(one).fence.job_id, id);
}

TEST_F(DataLooksTest, AnAnswerToAnotherQuestionSaysNothing) {
  Agent one = ConnectLooking("worker-1", 1);
  SubmitWithData();
  const std::vector<CheckDataAssignment> asked = TakeQuestions(one);
  ASSERT_THAT(asked, SizeIs(1));
  CheckDataAssignment other = asked[0];
  ++other.number;
  Say(one, other, "");
  other = asked[0];
  other.key = "other data";
  Say(one, other, "");
  EXPECT_FALSE(WasSent<StartAssignment>(one));
  Say(one, asked[0], "");
  StartRanks(one);
}

TEST_F(DataLooksTest, InPlaceOfAWorkerThatDoesNotAnswerAnotherIsAsked) {
  Agent one = ConnectLooking("worker-1", 1);
  Agent two = ConnectLooking("worker-2", 1);
  const uint64_t id = SubmitWithData();
  Agent& silent = WasSent<CheckDataAssignment>(one) ? one : two;
  Agent& other = &silent == &one ? two : one;
  Wait(kDataPatience - absl::Seconds(4), {&one, &two});
  EXPECT_FALSE(WasSent<CheckDataAssignment>(other));
  Wait(absl::Seconds(8), {&one, &two});
  Answer(other, "");
  EXPECT_EQ(StartRanks(other).fence.job_id, id);
  // Its answer counts whenever it comes.
  const uint64_t next = SubmitWithData();
  EXPECT_THAT(job(next).message, HasSubstr("being looked at by worker " + silent.name));
  Answer(silent, "");
  EXPECT_EQ(StartRanks(silent).fence.job_id, next);
}

TEST_F(DataLooksTest, AWorkerThatFoundOtherDataThanMostGetsNoRank) {
  Agent one = ConnectLooking("worker-1", 1);
  Agent two = ConnectLooking("worker-2", 1);
  Agent three = ConnectLooking("worker-3", 1);
  const uint64_t id = SubmitWithData(/*ranks=*/3);
  Answer(one, "", "", "other");
  Answer(two, "", "", "usual");
  Answer(three, "", "", "usual");
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_THAT(job(id).message, HasSubstr("worker worker-1 found other data there than most"));
  // Once its data are as the others', it may.
  Wait(kFirstDataRetry + absl::Seconds(4), {&one, &two, &three});
  Answer(one, "", "", "usual");
  EXPECT_EQ(state(id), JobState::kStarting) << job(id).message;
  StartRanks(one);
}

TEST_F(DataLooksTest, DataThatAreBrokenEverywhereEndTheJobBeforeAnAttempt) {
  Agent one = ConnectLooking("worker-1", 1);
  Agent two = ConnectLooking("worker-2", 1);
  const uint64_t running = Submit({});
  Agent& busy = WasSent<StartAssignment>(one) ? one : two;
  Agent& idle = &busy == &one ? two : one;
  StartRanks(busy);
  const uint64_t id = SubmitWithData();
  const uint64_t same = SubmitWithData();
  Answer(idle, "broken", "sample 7 is no picture");
  EXPECT_EQ(state(id), JobState::kPending) << "one word is not enough";
  Answer(busy, "broken", "sample 7 is no picture");
  for (const uint64_t ended : {id, same}) {
    EXPECT_EQ(state(ended), JobState::kFailed);
    EXPECT_EQ(job(ended).failure_class, FailureClass::kDataError);
    EXPECT_EQ(job(ended).attempt, 0u);
    EXPECT_THAT(job(ended).message,
                AllOf(HasSubstr("DATA_ERROR: its data cannot be used"),
                      HasSubstr("(broken: sample 7 is no picture) and 1 other")));
    EXPECT_EQ(job(ended).events.back()->message, job(ended).message);
  }
  EXPECT_EQ(state(running), JobState::kRunning);
}

TEST_F(DataLooksTest, AJobIsNotEndedByWhatWasFoundBeforeItsSubmit) {
  Agent one = ConnectLooking("worker-1", 1);
  const uint64_t first = SubmitWithData();
  Answer(one, "broken", "sample 7 is no picture");
  ASSERT_EQ(state(first), JobState::kFailed);
  Wait(absl::Hours(1), {&one});
  EXPECT_THAT(TakeQuestions(one), IsEmpty()) << "nobody waits for them";
  const uint64_t second = SubmitWithData();
  EXPECT_EQ(state(second), JobState::kPending) << job(second).message;
  Answer(one, "");
  EXPECT_EQ(StartRanks(one).fence.job_id, second);
}

TEST_F(DataLooksTest, AJobThatIsNewerThanAFaultIsLookedAtForAtOnce) {
  Agent one = ConnectLooking("worker-1", 1);
  const uint64_t id = SubmitWithData();
  for (uint32_t look = 1; look <= kDataLooks; ++look) {
    Answer(one, "missing", "/data is not there");
    if (look < kDataLooks) Wait(kFirstDataRetry * (1 << (look - 1)) + absl::Seconds(4), {&one});
  }
  ASSERT_EQ(state(id), JobState::kFailed);
  Wait(absl::Seconds(4), {&one});
  EXPECT_OK(Apply(ControlJob{.verb = ControlJob::Verb::kRequeue,
                             .job_id = id,
                             .actor = "user:ann",
                             .request_id = "again"})
                .status);
  EXPECT_EQ(state(id), JobState::kPending) << job(id).message;
  Wait(absl::Seconds(4), {&one});
  Answer(one, "missing", "/data is not there");
  EXPECT_EQ(state(id), JobState::kFailed) << "it has been looked at anew";
  Wait(absl::Seconds(4), {&one});
  // One of a group whose first job has waited for long already.
  const uint64_t ran = SubmitWithData();
  Answer(one, "");
  const Fence fence = StartRanks(one).fence;
  Wait(kDataVerdictLasts, {&one});
  EXPECT_OK(ReportExit(one, fence, 0, {.failure_class = FailureClass::kApplication}).status);
  Wait(absl::Seconds(4), {&one});
  Answer(one, "broken", "sample 7 is no picture");
  EXPECT_EQ(state(ran), JobState::kPending) << "it ran once";
  Wait(absl::Seconds(4), {&one});
  EXPECT_THAT(TakeQuestions(one), IsEmpty());
  const uint64_t next = SubmitWithData();
  EXPECT_EQ(state(next), JobState::kPending) << job(next).message;
  Answer(one, "");
  EXPECT_EQ(StartRanks(one).fence.job_id, ran);
}

TEST_F(DataLooksTest, AJobThatWasHeldWhileItsDataFailedIsNotEndedByThat) {
  Agent one = ConnectLooking("worker-1", 1);
  const auto control = [&](uint64_t id, ControlJob::Verb verb) {
    EXPECT_OK(Apply(ControlJob{.verb = verb, .job_id = id, .actor = "user:ann", .request_id = ""})
                  .status);
  };
  const uint64_t running = Submit({});
  const Fence fence = StartRanks(one).fence;
  const uint64_t held = Submit({.data = kData});
  control(held, ControlJob::Verb::kHold);
  TakeQuestions(one);
  const uint64_t other = Submit({.priority = 1, .data = kData});
  Finish(one, fence);
  EXPECT_EQ(state(running), JobState::kSucceeded);
  Answer(one, "broken", "sample 7 is no picture");
  ASSERT_EQ(state(other), JobState::kFailed);
  Wait(absl::Seconds(4), {&one});
  control(held, ControlJob::Verb::kRelease);
  EXPECT_EQ(state(held), JobState::kPending) << job(held).message;
  Answer(one, "");
  EXPECT_EQ(StartRanks(one).fence.job_id, held);
}

TEST_F(DataLooksTest, AJobIsNotEndedByWhatWasFoundBeforeTheJobThatMakesItsDataEnded) {
  Agent one = ConnectLooking("worker-1", 2);
  const uint64_t maker = Submit({});
  const Fence fence = StartRanks(one).fence;
  auto settings = std::make_shared<JobSettings>(
      *muster::testing::MakeSettings({.min_ranks = 1, .data = kData}));
  settings->scheduling.after = {{.job_id = maker, .on = SchedulingSettings::On::kSuccess}};
  const uint64_t user = Apply(SubmitJob{.settings = settings, .owner = "ann"}).job_id;
  const uint64_t early = SubmitWithData();
  Answer(one, "broken", "sample 7 is no picture");
  ASSERT_EQ(state(early), JobState::kFailed);
  Wait(absl::Seconds(4), {&one});
  EXPECT_THAT(TakeQuestions(one), IsEmpty());
  Finish(one, fence);
  ASSERT_EQ(state(maker), JobState::kSucceeded);
  EXPECT_EQ(state(user), JobState::kPending) << job(user).message;
  Answer(one, "");
  EXPECT_EQ(StartRanks(one).fence.job_id, user);
}

TEST_F(DataLooksTest, AWorkerThatRebootsIsWaitedFor) {
  Agent one = ConnectLooking("worker-1", 1);
  Agent two = ConnectLooking("worker-2", 1);
  Wait(absl::Minutes(1), {&one});
  ASSERT_TRUE(worker(two.name).lost);
  const uint64_t id = SubmitWithData();
  Answer(one, "broken", "sample 7 is no picture");
  EXPECT_EQ(state(id), JobState::kPending) << job(id).message;
  two = MakeReborn(two);
  two.checks_data = true;
  EXPECT_OK(Connect(two).status);
  Answer(two, "");
  EXPECT_EQ(StartRanks(two).fence.job_id, id);
}

TEST_F(DataLooksTest, HoweverManyWaitTheirFaultsAreLookedAtAgain) {
  constexpr size_t kJobs = 40;
  Agent one = ConnectLooking("worker-1", 1);
  for (size_t i = 0; i < kJobs; ++i) Submit({.data = absl::StrCat("data-", i)});
  std::set<std::string> failed;
  for (size_t i = 0; i < kJobs; ++i) {
    for (const CheckDataAssignment& asked : TakeQuestions(one)) {
      Say(one, asked, "unavailable", "the server is away");
      failed.insert(asked.key);
    }
  }
  ASSERT_THAT(failed, SizeIs(kJobs));
  std::set<std::string> again;
  for (int turn = 0; turn < 10; ++turn) {
    Wait(kFirstDataRetry / 5, {&one});
    for (const CheckDataAssignment& asked : TakeQuestions(one)) again.insert(asked.key);
  }
  EXPECT_THAT(again, SizeIs(kJobs));
}

TEST_F(DataLooksTest, JobsThatWaitForOtherThingsKeepNobodyFromLookingAgain) {
  Agent one = MakeAgent("worker-1", 1);
  one.facts.labels = {{"zone", "a"}};
  one.checks_data = true;
  EXPECT_OK(Connect(one).status);
  Agent plain = ConnectLooking("worker-2", 1);
  Agent other = MakeAgent("worker-3", 1, "other");
  other.checks_data = true;
  EXPECT_OK(Connect(other).status);
  Submit({.selector = {{"zone", "a"}}});
  StartRanks(one);
  for (int i = 0; i < 20; ++i) {
    Submit({.selector = {{"zone", "a"}}, .priority = 2 + i, .data = kData});
  }
  EXPECT_THAT(TakeQuestions(one), SizeIs(::testing::Le(1u)));
  Submit({.pool = "other", .data = "other data"});
  Answer(other, "missing", "/other is not there");
  Wait(kFirstDataRetry + absl::Seconds(4), {&one, &plain, &other});
  EXPECT_THAT(TakeQuestions(other), SizeIs(1));
}

TEST_F(DataLooksTest, DataThatAreMissingEverywhereEndTheJobAfterSomeLooks) {
  Agent one = ConnectLooking("worker-1", 1);
  const uint64_t id = SubmitWithData();
  for (uint32_t look = 1; look < kDataLooks; ++look) {
    Answer(one, "missing", "/data is not there");
    ASSERT_EQ(state(id), JobState::kPending) << look;
    Wait(kFirstDataRetry * (1 << (look - 1)) + absl::Seconds(4), {&one});
  }
  Answer(one, "missing", "/data is not there");
  EXPECT_EQ(state(id), JobState::kFailed);
  EXPECT_EQ(job(id).failure_class, FailureClass::kDataError);
}

TEST_F(DataLooksTest, AJobThatRanOnceWaitsForItsData) {
  Agent one = ConnectLooking("worker-1", 1);
  const uint64_t id = SubmitWithData();
  Answer(one, "");
  const Fence fence = StartRanks(one).fence;
  Wait(kDataVerdictLasts, {&one});
  EXPECT_OK(
      ReportExit(one, fence, 0, {.failure_class = FailureClass::kApplication, .message = "no"})
          .status);
  Wait(absl::Seconds(4), {&one});
  Answer(one, "broken", "sample 7 is no picture");
  EXPECT_EQ(state(id), JobState::kPending);
  EXPECT_THAT(job(id).message, HasSubstr("broken: sample 7 is no picture"));
  Wait(kFirstDataRetry + absl::Seconds(4), {&one});
  Answer(one, "");
  EXPECT_EQ(StartRanks(one).fence.attempt, 2u);
}

TEST_F(DataLooksTest, NobodyIsStoppedForAJobWhoseDataMayNotBeThere) {
  Agent one = ConnectLooking("worker-1", 1);
  const uint64_t victim = Submit({});
  StartRanks(one);
  const uint64_t urgent = Submit({.priority = 5, .data = kData});
  EXPECT_FALSE(WasSent<StopAssignment>(one));
  EXPECT_THAT(job(urgent).message, HasSubstr("its data are being looked at by worker worker-1"));
  const std::vector<CheckDataAssignment> asked = TakeQuestions(one);
  ASSERT_THAT(asked, SizeIs(1));
  Say(one, asked[0], "missing", "/data is not there");
  EXPECT_FALSE(WasSent<StopAssignment>(one));
  EXPECT_EQ(state(victim), JobState::kRunning);
  Wait(kFirstDataRetry + absl::Seconds(4), {&one});
  Answer(one, "");
  EXPECT_TRUE(WasSent<StopAssignment>(one));
}

TEST_F(DataLooksTest, NobodyIsStoppedWhileAnotherWorkerOfTheGangHasNotLooked) {
  Agent one = ConnectLooking("worker-1", 1);
  Agent two = ConnectLooking("worker-2", 1);
  const uint64_t victim = Submit({});
  Agent& busy = WasSent<StartAssignment>(one) ? one : two;
  Agent& idle = &busy == &one ? two : one;
  StartRanks(busy);
  Submit({.min_ranks = 2, .priority = 5, .data = kData});
  Answer(busy, "");
  EXPECT_FALSE(WasSent<StopAssignment>(busy));
  Answer(idle, "missing", "/data is not there");
  EXPECT_FALSE(WasSent<StopAssignment>(busy));
  EXPECT_EQ(state(victim), JobState::kRunning);
  Wait(kFirstDataRetry + absl::Seconds(4), {&one, &two});
  Answer(idle, "");
  EXPECT_TRUE(WasSent<StopAssignment>(busy));
}

TEST_F(DataLooksTest, AGangThatIsTooSmallForWantOfItsDataLooksForThemAgain) {
  Agent one = ConnectLooking("worker-1", 1);
  Agent two = ConnectLooking("worker-2", 1);
  const uint64_t id =
      Submit({.min_ranks = 1, .max_ranks = 2, .progress_timeout = absl::Hours(1), .data = kData});
  Answer(one, "");
  Answer(two, "unavailable", "the server is away");
  StartRanks(one);
  ASSERT_EQ(state(id), JobState::kRunning);
  Wait(elastic_.grow_after - absl::Minutes(1), {&one, &two});
  EXPECT_THAT(TakeQuestions(two), IsEmpty()) << "it would not grow yet";
  Wait(absl::Minutes(2), {&one, &two});
  Answer(two, "unavailable", "the server is away");
  EXPECT_THAT(TakeQuestions(two), IsEmpty());
  Wait(2 * kFirstDataRetry + absl::Seconds(4), {&one, &two});
  Answer(two, "");
}

TEST_F(DataLooksTest, DataThatTakeLongAreLookedAtByAFewWorkersAndSlotsAreNotKeptForThem) {
  std::vector<Agent> agents;
  for (int i = 1; i <= 5; ++i) agents.push_back(ConnectLooking(absl::StrCat("worker-", i), 1));
  std::vector<Agent*> all;
  for (Agent& agent : agents) all.push_back(&agent);
  const uint64_t id = SubmitWithData();
  Wait(absl::Minutes(10), all);
  std::vector<std::pair<Agent*, CheckDataAssignment>> asked;
  for (Agent& agent : agents) {
    for (const CheckDataAssignment& question : TakeQuestions(agent))
      asked.emplace_back(&agent, question);
  }
  ASSERT_THAT(asked, SizeIs(2));
  EXPECT_THAT(job(id).message, AllOf(HasSubstr("its data are being looked at by worker"),
                                     HasSubstr(" and 1 other for ")));
  for (int i = 0; i < 5; ++i) Submit({});
  size_t started = 0;
  for (Agent& agent : agents) {
    if (!WasSent<StartAssignment>(agent)) continue;
    ++started;
    Finish(agent, StartRanks(agent).fence);
  }
  EXPECT_EQ(started, 5u);
  Say(*asked[0].first, asked[0].second, "");
  EXPECT_EQ(StartRanks(*asked[0].first).fence.job_id, id);
}

TEST_F(DataLooksTest, OthersAreAskedInPlaceOfAsManyAsHaveAnswered) {
  std::vector<Agent> agents;
  for (int i = 1; i <= 9; ++i) agents.push_back(ConnectLooking(absl::StrCat("worker-", i), 1));
  std::vector<Agent*> all;
  for (Agent& agent : agents) all.push_back(&agent);
  const uint64_t id = SubmitWithData(/*ranks=*/6);
  int silent = 0;
  for (int turn = 0; turn < 10 && state(id) == JobState::kPending; ++turn) {
    for (Agent& agent : agents) {
      for (const CheckDataAssignment& question : TakeQuestions(agent)) {
        if (silent < 3) {
          ++silent;
          continue;
        }
        Say(agent, question, "");
      }
    }
    Wait(kDataPatience / 2, all);
  }
  EXPECT_EQ(state(id), JobState::kStarting) << job(id).message;
}

TEST_F(DataLooksTest, WhereSomebodyFoundOtherDataTheOldestVerdictOfTheMostIsAskedForAnew) {
  Agent one = ConnectLooking("worker-1", 1);
  Agent two = ConnectLooking("worker-2", 1);
  const uint64_t first = SubmitWithData(/*ranks=*/2);
  Answer(one, "", "", "before");
  Wait(absl::Seconds(4), {&one, &two});
  Answer(two, "", "", "before");
  const Fence fence = StartRanks(one).fence;
  StartRanks(two);
  Finish(one, fence);
  EXPECT_OK(ReportExit(two, fence, 1, {.succeeded = true}).status);
  ASSERT_EQ(state(first), JobState::kSucceeded);
  // The data are others now.
  Wait(absl::Minutes(2), {&one, &two});
  Agent three = ConnectLooking("worker-3", 1);
  const uint64_t id = SubmitWithData(/*ranks=*/3);
  Answer(three, "", "", "now");
  EXPECT_THAT(TakeQuestions(two), IsEmpty()) << "one at a time";
  Answer(one, "", "", "now");
  Wait(absl::Seconds(4), {&one, &two, &three});
  Answer(two, "", "", "now");
  EXPECT_EQ(state(id), JobState::kStarting) << job(id).message;
}

TEST_F(DataLooksTest, AGangWhoseVerdictEndedBeforeItWasPlacedIsNotAndThatIsSaid) {
  Agent one = ConnectLooking("worker-1", 1);
  SubmitWithData();
  Answer(one, "");
  Finish(one, StartRanks(one).fence);
  Wait(kDataVerdictLasts, {&one});
  const uint64_t id = SubmitWithData();
  const PlaceGang gang{.job_id = id,
                       .attempt = 1,
                       .ranks = {{.worker = one.name, .slots = {0}, .local_rank = 0}},
                       .reason = "its verdict was young"};
  const EventResult result = Apply(ApplyPlan{.plan = {.place = {gang}, .stop = {}, .waiting = {}}});
  EXPECT_OK(result.status);
  EXPECT_TRUE(result.partly_void);
  EXPECT_FALSE(WasSent<StartAssignment>(one));
  Answer(one, "");
  EXPECT_EQ(StartRanks(one).fence.job_id, id);
}

TEST_F(DataLooksTest, OnlySoManyViewsAreKept) {
  Agent one = ConnectLooking("worker-1", 1);
  for (size_t i = 0; i < kMaxDataViews + 3; ++i) {
    Submit({.data = absl::StrCat("data-", i)});
    Answer(one, "");
    Finish(one, StartRanks(one).fence);
    Advance(absl::Milliseconds(10));
  }
  const auto views = worker("worker-1").pulse.data;
  EXPECT_EQ(views->size(), kMaxDataViews);
  EXPECT_EQ(views->count("data-0"), 0u);
  EXPECT_EQ(views->count(absl::StrCat("data-", kMaxDataViews + 2)), 1u);
}

}  // namespace
}  // namespace muster::controller
