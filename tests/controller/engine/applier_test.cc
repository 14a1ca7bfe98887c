// When the applier wants to run: what somebody waits for at once, what nobody waits for a little
// later.
#include "controller/engine/applier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/controller_fixture.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::MakeSettings;

RankReport News(RankReport::Kind kind, bool succeeded = false) {
  return {.worker = "w", .incarnation = "i", .kind = kind, .succeeded = succeeded};
}

class ApplierTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = StateStore::Open({.path = dir_ / "state.db"});
    ASSERT_OK(store);
    const auto term = (*store)->StartTerm();
    ASSERT_OK(term);
    auto initial = (*store)->Load(*term, clock_.SinceBoot(), clock_.Now());
    ASSERT_OK(initial);
    applier_ = std::make_unique<Applier>(
        *std::move(store), *std::move(initial), clock_, Applier::Policies(),
        Applier::Hooks{.before_publish = [](const AfterCommit&) {},
                       .after_publish = [](const AfterCommit&) {},
                       .answered = [](const Applier::Item&, const EventResult&) {},
                       .batch_done = [](const std::shared_ptr<const Snapshot>&) {},
                       .fatal = [](const absl::Status& why) { ADD_FAILURE() << why; }});
    applier_->SetWakeUp([this] { ++wake_ups_; });
  }

  void Post(Event event) {
    applier_->Post({.event = std::move(event),
                    .done = [this](const EventResult&) { ++answers_; },
                    .link = nullptr});
  }

  muster::testing::TempDir dir_;
  SimulatedClock clock_;
  std::unique_ptr<Applier> applier_;
  int wake_ups_ = 0;
  int answers_ = 0;
};

TEST_F(ApplierTest, NothingIsDueWhileNothingIsQueued) {
  EXPECT_EQ(applier_->UntilDue(), absl::InfiniteDuration());
  EXPECT_FALSE(applier_->RunOnce());
}

TEST_F(ApplierTest, NewsOfRanksWaitForOthersToShareTheirCommit) {
  Post(News(RankReport::Kind::kRunning));
  EXPECT_EQ(applier_->UntilDue(), Applier::kPatience);
  EXPECT_EQ(wake_ups_, 1);
  // Those that follow neither put it off nor wake anyone.
  clock_.Advance(Applier::kPatience / 2);
  Post(AssignmentAcked{.worker = "w", .incarnation = "i", .outbox_seq = 1});
  Post(News(RankReport::Kind::kExited, /*succeeded=*/true));
  EXPECT_EQ(applier_->UntilDue(), Applier::kPatience / 2);
  EXPECT_EQ(wake_ups_, 1);
  clock_.Advance(Applier::kPatience);
  EXPECT_EQ(applier_->UntilDue(), absl::ZeroDuration());
  EXPECT_TRUE(applier_->RunOnce());
  EXPECT_EQ(answers_, 3);
  EXPECT_EQ(applier_->UntilDue(), absl::InfiniteDuration());
}

TEST_F(ApplierTest, WhatSomebodyWaitsForIsDueAtOnceAndTakesTheRestAlong) {
  const std::vector<Event> urgent = {
      SubmitJob{.settings = MakeSettings({}), .owner = "ann"},
      News(RankReport::Kind::kExited, /*succeeded=*/false),
      AssignmentAcked{.worker = "w", .incarnation = "i", .refusal = "no"},
      WorkerHeartbeat{.worker = "w", .incarnation = "i"},
  };
  for (const Event& event : urgent) {
    wake_ups_ = answers_ = 0;
    Post(News(RankReport::Kind::kRunning));
    Post(event);
    EXPECT_EQ(applier_->UntilDue(), absl::ZeroDuration()) << event.index();
    EXPECT_EQ(wake_ups_, 2) << event.index();
    EXPECT_TRUE(applier_->RunOnce());
    EXPECT_EQ(answers_, 2) << event.index();
  }
}

TEST_F(ApplierTest, EnoughNewsAreDueAtOnce) {
  for (size_t i = 1; i < Applier::kEnough; ++i) Post(News(RankReport::Kind::kRunning));
  EXPECT_EQ(applier_->UntilDue(), Applier::kPatience);
  Post(News(RankReport::Kind::kRunning));
  EXPECT_EQ(applier_->UntilDue(), absl::ZeroDuration());
  EXPECT_EQ(wake_ups_, 2);
}

TEST_F(ApplierTest, NobodyElseFillsTheQueueOfTheAgents) {
  int refused = 0;
  const auto post = [&](Event event) {
    applier_->Post({.event = std::move(event),
                    .done = [&](const EventResult& r) { refused += absl::IsUnavailable(r.status); },
                    .link = nullptr});
  };
  for (size_t i = 0; i < Applier::kMaxQueued; ++i) post(CancelJob{.job_id = 1});
  for (size_t i = 0; i < Applier::kMaxQueued; ++i) post(Findings{});
  EXPECT_EQ(refused, 0);
  post(CancelJob{.job_id = 1});
  post(Findings{});
  EXPECT_EQ(refused, 2) << "each queue is bounded";
  for (Event of_loops :
       {Event(ApplyPlan{}), Event(AssignCheckpointWork{}), Event(ReconcileRoots{})}) {
    refused = 0;
    post(std::move(of_loops));
    EXPECT_EQ(refused, 1) << "it is in the loops' queue, which is full";
  }
  // An agent's word finds its place, and is answered with the very next batch.
  Post(WorkerHeartbeat{.worker = "w", .incarnation = "i"});
  EXPECT_EQ(answers_, 0);
  EXPECT_TRUE(applier_->RunOnce());
  EXPECT_EQ(answers_, 1);
}

TEST_F(ApplierTest, WhatABatchTakesIsAppliedInTheOrderOfItsArrival) {
  std::vector<int> order;
  const auto post = [&](Event event, int number) {
    applier_->Post({.event = std::move(event),
                    .done = [&order, number](const EventResult&) { order.push_back(number); },
                    .link = nullptr});
  };
  post(SubmitJob{.settings = MakeSettings({}), .owner = "ann"}, 1);
  post(WorkerHeartbeat{.worker = "w", .incarnation = "i"}, 2);
  post(Findings{}, 3);
  post(CancelJob{.job_id = 1}, 4);
  EXPECT_TRUE(applier_->RunOnce());
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

TEST_F(ApplierTest, WhatABatchLeavesIsDueAtOnce) {
  for (size_t i = 0; i < Applier::kMaxBatch + 1; ++i) Post(News(RankReport::Kind::kRunning));
  EXPECT_TRUE(applier_->RunOnce());
  EXPECT_EQ(applier_->UntilDue(), absl::ZeroDuration());
  EXPECT_TRUE(applier_->RunOnce());
  EXPECT_EQ(applier_->UntilDue(), absl::InfiniteDuration());
}

}  // namespace
}  // namespace muster::controller
