// The autoscaler over a real engine on a simulated clock; the scaler notes what it is told.
#include "controller/autoscale/autoscaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/metrics/metric_names.h"
#include "controller/store/state_store.h"
#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::ControllerFixture;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// As the test sets it; outlives the scalers.
struct FakeGroup {
  std::optional<uint32_t> asked;
  absl::Status status;
  absl::Duration asked_to_wait;
  std::vector<PoolDecision> told;
  int looks = 0;
};

class FakeScaler final : public Scaler {
 public:
  explicit FakeScaler(FakeGroup& group) : group_(group) {}
  absl::StatusOr<std::optional<uint32_t>> Asked() override {
    ++group_.looks;
    return group_.asked;
  }
  absl::Status ScaleTo(const PoolDecision& decision) override {
    group_.told.push_back(decision);
    return group_.status;
  }
  absl::Duration asked_to_wait() const override { return group_.asked_to_wait; }
  void Stop() override {}

 private:
  FakeGroup& group_;
};

class AutoscalerTest : public ControllerFixture {
 protected:
  void SetUp() override {
    ControllerFixture::SetUp();
    scaling_.pool = "gpu";
    scaling_.max = 3;
    scaling_.facts = muster::testing::MakeFacts(2, "gpu");
    scaling_.patience = absl::Seconds(10);
    scaling_.idle_after = absl::Minutes(5);
    scaling_.cooldown = absl::Seconds(30);
    Begin();
  }

  // As after a start of musterd, and once its agents have had time to come back.
  void Begin() {
    Start();
    Advance(engine_->options().startup_grace);
  }
  void Start() {
    autoscaler_.reset();
    std::vector<Autoscaler::Pool> pools;
    pools.push_back({scaling_, std::make_unique<FakeScaler>(group_)});
    autoscaler_ = std::make_unique<Autoscaler>(*engine_, clock_, families_, absl::Seconds(5),
                                               std::move(pools));
  }

  void TearDown() override { autoscaler_.reset(); }

  void Look() {
    autoscaler_->LookOnce();
    RunUntilIdle();
  }

  // Looks as the thread would; who is named speaks meanwhile.
  void LookFor(absl::Duration time, std::vector<Agent*> agents = {}) {
    for (absl::Duration at; at < time; at += absl::Seconds(5)) {
      for (Agent* agent : agents) Beat(*agent);
      Advance(absl::Seconds(5));
      Look();
    }
  }

  uint64_t SubmitGpu(uint32_t ranks = 2) {
    return Submit({.min_ranks = ranks, .pool = "gpu", .wait_for_capacity = true});
  }

  Agent Come(const std::string& name) {
    Agent agent = MakeAgent(name, 2, "gpu");
    EXPECT_TRUE(Connect(agent).status.ok());
    return agent;
  }

  double Metric(const MetricDef& metric) {
    for (const prometheus::MetricFamily& family : families_.Collect()) {
      if (family.name == metric.name && !family.metric.empty()) {
        return metric.type == MetricType::kCounter ? family.metric[0].counter.value
                                                   : family.metric[0].gauge.value;
      }
    }
    return -1;
  }

  PoolScaling scaling_;
  FakeGroup group_;
  MetricFamilies families_{metric::kControllerDroppedTotal};
  std::unique_ptr<Autoscaler> autoscaler_;
};

TEST_F(AutoscalerTest, AWorkerComesForAJobAndLeavesWhenItIsIdle) {
  const uint64_t id = SubmitGpu();
  Look();
  EXPECT_THAT(group_.told, IsEmpty());
  LookFor(absl::Seconds(10));
  ASSERT_EQ(group_.told.size(), 1u);
  EXPECT_EQ(group_.told[0].wanted, 1u);
  // It is on its way: nobody else is asked for.
  LookFor(absl::Seconds(55));
  EXPECT_EQ(group_.told.size(), 1u);
  EXPECT_EQ(Metric(metric::kAutoscaleWantedWorkers), 1);

  Agent agent = Come("g-1");
  Look();
  EXPECT_EQ(state(id), JobState::kStarting);
  const StartAssignment start = StartRanks(agent);
  LookFor(absl::Minutes(20), {&agent});
  EXPECT_EQ(group_.told.size(), 1u);
  EXPECT_FALSE(worker("g-1").cordoned);

  for (uint32_t rank = 0; rank < 2; ++rank)
    ReportExit(agent, start.fence, rank, {.succeeded = true});
  ASSERT_EQ(state(id), JobState::kSucceeded);
  LookFor(absl::Minutes(4), {&agent});
  EXPECT_FALSE(worker("g-1").cordoned);
  LookFor(absl::Minutes(1) + absl::Seconds(10), {&agent});
  EXPECT_TRUE(worker("g-1").cordoned);
  EXPECT_EQ(worker("g-1").cordon_reason, "autoscale: idle for 5m");
  ASSERT_EQ(group_.told.size(), 2u);
  EXPECT_EQ(group_.told[1].wanted, 0u);
  EXPECT_THAT(group_.told[1].leaving, ElementsAre("g-1"));

  // It is gone, and out of the list.
  Apply(WorkerNotice{.worker = agent.name,
                     .incarnation = agent.incarnation,
                     .event_seq = ++agent.event_seq,
                     .message = "the agent got SIGTERM"});
  LookFor(absl::Minutes(2));
  EXPECT_EQ(snapshot()->FindWorker("g-1"), nullptr);
  EXPECT_EQ(group_.told.size(), 2u);
}

TEST_F(AutoscalerTest, AJobThatComesTakesALeavingWorkerBack) {
  Agent agent = Come("g-1");
  scaling_.min = 0;
  group_.status = absl::UnavailableError("the cloud is down");
  LookFor(absl::Minutes(5) + absl::Seconds(10), {&agent});
  ASSERT_TRUE(worker("g-1").cordoned);
  const uint64_t id = SubmitGpu();
  LookFor(absl::Minutes(3), {&agent});
  EXPECT_FALSE(worker("g-1").cordoned);
  EXPECT_EQ(state(id), JobState::kStarting);
}

TEST_F(AutoscalerTest, ItKnowsItsOwnDrainsAfterARestart) {
  Agent agent = Come("g-1");
  group_.status = absl::UnavailableError("the cloud is down");
  LookFor(absl::Minutes(5) + absl::Seconds(5), {&agent});
  ASSERT_TRUE(worker("g-1").cordoned);
  autoscaler_.reset();
  Restart();
  Begin();
  group_ = {};
  Connect(agent);
  LookFor(absl::Minutes(1), {&agent});
  ASSERT_EQ(group_.told.size(), 1u);
  EXPECT_THAT(group_.told[0].leaving, ElementsAre("g-1"));
}

TEST_F(AutoscalerTest, WhatAPersonDrainedStaysDrained) {
  Agent agent = Come("g-1");
  Apply(CordonWorker{.worker = "g-1", .reason = "its fan is loud", .actor = "user:ann"});
  SubmitGpu();
  LookFor(absl::Minutes(1), {&agent});
  EXPECT_TRUE(worker("g-1").cordoned);
  ASSERT_EQ(group_.told.size(), 1u);
  EXPECT_EQ(group_.told[0].wanted, 2u);
}

TEST_F(AutoscalerTest, AScalerThatFailsIsAskedAgainLaterAndLater) {
  SubmitGpu();
  group_.status = absl::UnavailableError("the cloud is down");
  LookFor(absl::Minutes(20));
  const size_t tries = group_.told.size();
  EXPECT_GE(tries, 8u);
  EXPECT_LE(tries, 20u);
  EXPECT_EQ(Metric(metric::kAutoscaleFailing), 1);
  EXPECT_EQ(Metric(metric::kAutoscaleFailuresTotal), static_cast<double>(tries));
  const JobNeeds needs = snapshot()->FindJob(1)->settings->needs;
  const std::vector<Blocker> hints = autoscaler_->Hints(needs);
  ASSERT_EQ(hints.size(), 1u);
  EXPECT_THAT(hints[0].message, HasSubstr("asking for more fails: the cloud is down"));
  group_.status = absl::OkStatus();
  LookFor(Autoscaler::kLongestWait + absl::Seconds(5));
  EXPECT_EQ(Metric(metric::kAutoscaleFailing), 0);
  EXPECT_EQ(autoscaler_->Hints(needs)[0].message, "1 worker of pool gpu is asked for, 0 are there");
}

TEST_F(AutoscalerTest, ItWaitsAsLongAsItIsAskedTo) {
  SubmitGpu();
  group_.status = absl::UnavailableError("too many requests");
  group_.asked_to_wait = absl::Minutes(5);
  LookFor(absl::Minutes(4));
  EXPECT_EQ(group_.told.size(), 1u);
  LookFor(absl::Minutes(2));
  EXPECT_EQ(group_.told.size(), 2u);
}

TEST_F(AutoscalerTest, WhileAWorkerIsSilentNothingIsChanged) {
  Agent agent = Come("g-1");
  engine_->Disconnect(agent.name, agent.incarnation, agent.link.get());
  RunUntilIdle();
  SubmitGpu();
  Look();
  EXPECT_EQ(group_.looks, 0);
  LookFor(absl::Minutes(1));
  ASSERT_EQ(group_.told.size(), 1u);
  EXPECT_EQ(group_.told[0].wanted, 1u);
}

TEST_F(AutoscalerTest, NothingIsChangedBeforeAgentsHadTimeToComeBack) {
  Start();
  group_.asked = 2;
  LookFor(engine_->options().startup_grace - absl::Seconds(5));
  EXPECT_EQ(group_.looks, 0);
  LookFor(absl::Seconds(10));
  EXPECT_THAT(group_.told, SizeIs(1));
}

TEST_F(AutoscalerTest, NothingIsChangedWhileARestoredControllerIsHeld) {
  Come("g-1");
  autoscaler_.reset();
  engine_.reset();
  {
    auto store = StateStore::Open({.path = dir_ / "state.db"});
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->PutRestored(clock_.Now()).ok());
  }
  Open();
  Begin();
  ASSERT_NE(engine_->held(), "") << "g-1 has not come back";
  group_.asked = 4;  // workers that the backup does not know
  LookFor(absl::Minutes(1));
  EXPECT_EQ(group_.looks, 0);
  EXPECT_THAT(group_.told, IsEmpty());
}

TEST_F(AutoscalerTest, WhoDiedIsAskedForAgainWhereTheScalerDoesNotKnowTheNumber) {
  scaling_.min = 1;
  Begin();
  Agent agent = Come("g-1");
  LookFor(absl::Minutes(2), {&agent});
  EXPECT_THAT(group_.told, IsEmpty());
  LookFor(absl::Minutes(2));  // it is silent, and lost
  ASSERT_TRUE(worker("g-1").lost);
  ASSERT_THAT(group_.told, Not(IsEmpty()));
  EXPECT_EQ(group_.told.back().wanted, 1u);
  EXPECT_LE(group_.told.size(), 2u) << "once a minute";
}

TEST_F(AutoscalerTest, TheNumberThatTheScalerKnowsCounts) {
  group_.asked = 2;
  LookFor(absl::Minutes(2));
  ASSERT_GE(group_.told.size(), 1u);
  EXPECT_EQ(group_.told[0].asked, 2u);
  EXPECT_EQ(group_.told[0].wanted, 0u);
}

TEST_F(AutoscalerTest, JobsThatWorkersToComeCouldHoldAreKnown) {
  JobNeeds needs = muster::testing::MakeSettings({.min_ranks = 6, .pool = "gpu"})->needs;
  EXPECT_TRUE(autoscaler_->CouldCome(needs));
  needs.min_ranks = 7;
  EXPECT_FALSE(autoscaler_->CouldCome(needs));
  EXPECT_THAT(autoscaler_->Hints(muster::testing::MakeSettings({})->needs), IsEmpty());
}

TEST_F(AutoscalerTest, ItsThreadStopsWithoutALook) {
  autoscaler_->Start();
  autoscaler_->Stop();
  autoscaler_->Stop();
}

}  // namespace
}  // namespace muster::controller
