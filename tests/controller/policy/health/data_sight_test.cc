#include "controller/policy/health/data_sight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "controller/policy/health/eligibility.h"
#include "tests/controller/policy/world.h"

namespace muster::controller {
namespace {

using ::testing::HasSubstr;

constexpr char kData[] = "imagenet";
constexpr absl::Duration kNow = absl::Hours(5);

class DataSightTest : public ::testing::Test {
 protected:
  Worker& Add(const std::string& name, const DataView& view, const std::string& pool = "default") {
    Worker& worker = world_.AddWorker(name, 1, SlotKind::kCpu, pool);
    worker.pulse.checks_data = true;
    worker.pulse.data = std::make_shared<const DataViews>(DataViews{{kData, view}});
    return worker;
  }
  static DataView Overdue(absl::Duration ago) {
    return {.number = 1, .asked_at = kNow - ago, .overdue = true};
  }
  void AddUnasked(const std::string& name, const std::string& pool = "default") {
    world_.AddWorker(name, 1, SlotKind::kCpu, pool).pulse.checks_data = true;
  }
  static DataView Sound(const std::string& fingerprint, absl::Duration ago = absl::Seconds(1)) {
    return {.number = 1, .answered = true, .seen_at = kNow - ago, .fingerprint = fingerprint};
  }
  static DataView Fault(const std::string& fault, uint32_t failures = 1) {
    return {.number = 1,
            .answered = true,
            .seen_at = kNow - absl::Seconds(1),
            .fault = fault,
            .error = "it is so",
            .failures = failures};
  }
  DataStanding Of(const std::string& name) {
    const DataSight sight(kData, world_.view());
    const Worker& worker = *world_.view().FindWorker(name);
    return sight.Of(worker, kNow);
  }
  bool RulesOut(const std::string& name) {
    return DataSight(kData, world_.view()).RulesOut(*world_.view().FindWorker(name));
  }
  std::string Unusable(bool wait_for_capacity = false) {
    JobNeeds needs = World::Settings(1).needs;
    needs.data = kData;
    needs.wait_for_capacity = wait_for_capacity;
    return FindUnusableData(world_.view(), needs, kNow).why;
  }

  World world_;
};

TEST_F(DataSightTest, MostWorkersSayWhichDataAreTheRightOnes) {
  Add("w1", Sound("a"));
  Add("w2", Sound("b"));
  Add("w3", Sound("b"));
  Add("w4", Sound(""));
  EXPECT_EQ(Of("w1"), DataStanding::kDifferent);
  EXPECT_TRUE(RulesOut("w1"));
  EXPECT_EQ(Of("w2"), DataStanding::kSound);
  EXPECT_EQ(Of("w4"), DataStanding::kSound) << "it does not know";
}

TEST_F(DataSightTest, ByItselfNothingIsCompared) {
  Add("w1", Sound("a"));
  Add("w2", Sound("b"));
  const Worker& differs = *world_.view().FindWorker("w2");
  EXPECT_EQ(StandingByItself(differs, kData, kNow), DataStanding::kSound);
  EXPECT_EQ(Of("w2"), DataStanding::kDifferent);
}

TEST_F(DataSightTest, PoolsAreNotCompared) {
  Add("w1", Sound("a"), "near");
  Add("w2", Sound("b"), "far");
  Add("w3", Sound("b"), "far");
  for (const char* worker : {"w1", "w2", "w3"}) EXPECT_EQ(Of(worker), DataStanding::kSound);
}

TEST_F(DataSightTest, WhoTakesNoWorkHasNoVoice) {
  Add("w1", Sound("a")).cordoned = true;
  Add("w2", Sound("a")).pulse.connected = false;
  Add("w3", Sound("b"));
  EXPECT_EQ(Of("w3"), DataStanding::kSound);
}

TEST_F(DataSightTest, OneOfTheMostWhoseLookIsOlderIsAskedOnceWhetherItStillFindsTheSame) {
  Add("w1", Sound("a", absl::Minutes(4)));
  Add("w2", Sound("a", absl::Minutes(5)));
  Add("w3", Sound("b", absl::Minutes(1)));
  const auto oldest = [this] {
    const Worker* worker =
        DataSight(kData, world_.view()).OldestOfMost(*world_.view().FindWorker("w3"));
    return worker == nullptr ? "" : worker->name;
  };
  EXPECT_EQ(oldest(), "w2");
  DataView view = Sound("a", absl::Minutes(5));
  view.answered = false;
  Add("w4", view);
  EXPECT_EQ(oldest(), "") << "one is asked already";
}

TEST_F(DataSightTest, WhoLookedAfterTheOtherHasConfirmedIt) {
  Add("w1", Sound("a", absl::Minutes(5)));
  Add("w2", Sound("a", absl::Seconds(1)));
  Add("w3", Sound("b", absl::Minutes(1)));
  const DataSight sight(kData, world_.view());
  EXPECT_EQ(sight.OldestOfMost(*world_.view().FindWorker("w3")), nullptr);
}

TEST_F(DataSightTest, WhereDataTakeLongNobodyElseOfThePoolIsAsked) {
  AddUnasked("w0");
  Add("w1", Overdue(absl::Minutes(2)));
  EXPECT_FALSE(RulesOut("w0"));
  Add("w2", Overdue(absl::Minutes(3)));
  EXPECT_TRUE(RulesOut("w0"));
  const DataSight sight(kData, world_.view());
  EXPECT_THAT(sight.WhyRuledOut(*world_.view().FindWorker("w0")), HasSubstr("others do for long"));
  AddUnasked("w3", "another pool");
  EXPECT_FALSE(RulesOut("w3"));
  // One that looked before they were asked, and would have to look again.
  Add("w4", Sound("a", absl::Minutes(30)));
  EXPECT_TRUE(RulesOut("w4"));
  Add("w5", Sound("a", absl::Minutes(6)));
  EXPECT_FALSE(RulesOut("w5"));
  // Where others answer, it is these workers that are slow.
  Add("w6", Sound("a", absl::Minutes(1)));
  EXPECT_FALSE(RulesOut("w0"));
}

TEST_F(DataSightTest, WhoTakesNoWorkHoldsNobodyUp) {
  AddUnasked("w0");
  Add("w1", Overdue(absl::Minutes(2))).cordoned = true;
  Add("w2", Overdue(absl::Minutes(3)));
  EXPECT_FALSE(RulesOut("w0"));
}

TEST_F(DataSightTest, OfAsManyTheFirstWorkersCount) {
  Add("w1", Sound("b"));
  Add("w2", Sound("a"));
  EXPECT_EQ(Of("w1"), DataStanding::kSound);
  EXPECT_EQ(Of("w2"), DataStanding::kDifferent);
}

TEST_F(DataSightTest, WhatWasSeenLongBeforeTheNewestLookIsNotCompared) {
  Add("w1", Sound("before", 2 * kDataVerdictLasts));
  Add("w2", Sound("before", 2 * kDataVerdictLasts));
  Add("w3", Sound("now"));
  EXPECT_EQ(Of("w1"), DataStanding::kUnknown);
  EXPECT_FALSE(RulesOut("w1"));
  EXPECT_EQ(Of("w3"), DataStanding::kSound);
}

TEST_F(DataSightTest, AVerdictLastsForAWhile) {
  Add("w1", Sound("a", kDataVerdictLasts - absl::Seconds(1)));
  Add("w2", Sound("a", kDataVerdictLasts));
  EXPECT_EQ(Of("w1"), DataStanding::kSound);
  EXPECT_EQ(Of("w2"), DataStanding::kUnknown);
}

TEST_F(DataSightTest, WhoDoesNotAnswerIsOverdueAfterAWhile) {
  Add("w1", {.number = 1, .asked_at = kNow - kDataPatience + absl::Seconds(1)});
  Add("w2", {.number = 1, .asked_at = kNow - kDataPatience});
  EXPECT_EQ(Of("w1"), DataStanding::kAsked);
  EXPECT_EQ(Of("w2"), DataStanding::kOverdue);
  EXPECT_FALSE(RulesOut("w2")) << "before that is on record";
}

TEST_F(DataSightTest, RetriesComeLaterAndLater) {
  DataView view = Fault("missing");
  EXPECT_EQ(NextDataLook(view) - view.seen_at, kFirstDataRetry);
  view.failures = 3;
  EXPECT_EQ(NextDataLook(view) - view.seen_at, 4 * kFirstDataRetry);
  view.failures = 1000;
  EXPECT_EQ(NextDataLook(view) - view.seen_at, kLongestDataRetry);
}

TEST_F(DataSightTest, AllMustHaveGivenTheDataUp) {
  EXPECT_EQ(Unusable(), "") << "there is no worker";
  Add("w1", Fault("broken"));
  EXPECT_THAT(Unusable(), HasSubstr("on worker w1 (broken: it is so), and no other worker"));
  Add("w2", Fault("forbidden", kDataLooks));
  EXPECT_THAT(Unusable(), HasSubstr("(broken: it is so) and 1 other"));
  Add("w3", Fault("missing", kDataLooks - 1));
  EXPECT_EQ(Unusable(), "");
}

TEST_F(DataSightTest, WhereWorkersMayComeOneLookOfTheFirstIsNotEnough) {
  Worker& first = Add("w1", Fault("broken", kDataLooks - 1));
  EXPECT_NE(Unusable(), "");
  EXPECT_EQ(Unusable(/*wait_for_capacity=*/true), "") << "its copy may not be whole yet";
  first.pulse.data =
      std::make_shared<const DataViews>(DataViews{{kData, Fault("broken", kDataLooks)}});
  EXPECT_NE(Unusable(/*wait_for_capacity=*/true), "");
}

TEST_F(DataSightTest, StorageThatIsAwayGivesHope) {
  Add("w1", Fault("broken"));
  Add("w2", Fault("unavailable", 100));
  EXPECT_EQ(Unusable(), "");
}

TEST_F(DataSightTest, AnAgentThatDoesNotLookGivesHope) {
  Add("w1", Fault("broken"));
  world_.AddWorker("w2", 1);
  EXPECT_EQ(Unusable(), "");
}

TEST_F(DataSightTest, AWorkerThatMayComeBackGivesHope) {
  Add("w1", Fault("broken"));
  Worker& rebooting = Add("w2", Fault("broken"));
  EXPECT_NE(Unusable(), "");
  rebooting.pulse.connected = false;
  EXPECT_EQ(Unusable(), "");
  rebooting.lost = true;
  rebooting.pulse.last_seen_at = kNow - absl::Minutes(1);
  EXPECT_EQ(Unusable(), "");
  rebooting.pulse.last_seen_at = kNow - kMayReturnWithin - absl::Seconds(1);
  EXPECT_NE(Unusable(), "");
}

TEST_F(DataSightTest, AnAnswerThatIsAwaitedGivesHope) {
  DataView view = Fault("broken");
  view.answered = false;
  Add("w1", view);
  EXPECT_EQ(Unusable(), "");
}

TEST_F(DataSightTest, OnlyAJobThatWaitsAndNeverRanEndsAndNoneThatIsNewerThanAVerdict) {
  DataView old = Fault("broken");
  old.asked_at = kNow - absl::Minutes(5);
  DataView young = Fault("broken");
  young.asked_at = kNow - absl::Minutes(1);
  Add("w1", old);
  Add("w2", young);
  JobSettings settings = World::Settings(1);
  settings.needs.data = kData;
  const UnusableData data = FindUnusableData(world_.view(), settings.needs, kNow);
  Job job;
  job.state = JobState::kPending;
  job.not_before_at = kNow - absl::Minutes(6);
  EXPECT_TRUE(EndsFor(data, job, job.not_before_at));
  EXPECT_FALSE(EndsFor({}, job, job.not_before_at));
  job.attempt = 1;
  EXPECT_FALSE(EndsFor(data, job, job.not_before_at));
  job.attempt = 0;
  job.state = JobState::kRunning;
  EXPECT_FALSE(EndsFor(data, job, job.not_before_at));
  job.state = JobState::kPending;
  job.not_before_at = kNow - absl::Minutes(3);
  EXPECT_FALSE(EndsFor(data, job, job.not_before_at)) << "w1 has not looked since";
}

TEST_F(DataSightTest, AWorkerThatIsGoneOrCouldNotHoldARankIsNotWaitedFor) {
  Add("w1", Fault("broken"));
  Worker& gone = world_.AddWorker("w2", 1);
  gone.lost = true;
  gone.pulse.last_seen_at = kNow - kMayReturnWithin - absl::Seconds(1);
  world_.AddWorker("w3", 0);
  world_.AddWorker("w4", 1, SlotKind::kCpu, "another pool");
  EXPECT_THAT(Unusable(), HasSubstr("on worker w1"));
}

}  // namespace
}  // namespace muster::controller
