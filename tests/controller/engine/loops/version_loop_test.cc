#include "controller/engine/loops/version_loop.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

namespace muster::controller {
namespace {

class VersionLoopTest : public ::testing::Test {
 protected:
  // Each run that decides proposes an event, whose answer is kept.
  VersionLoopTest()
      : loop_(clock_,
              {.snapshot = [this] { return snapshot_; },
               .post = [this](Event, EventDone done) { answer_ = std::move(done); },
               .wake_up = [this] { ++woken_; }},
              [this](const Snapshot&, absl::Duration) {
                ++runs_;
                return VersionLoop::Decision{.event = ApplyPlan{}};
              }) {}

  SimulatedClock clock_;
  const std::shared_ptr<const Snapshot> snapshot_ = std::make_shared<const Snapshot>();
  EventDone answer_;
  int runs_ = 0;
  int woken_ = 0;
  VersionLoop loop_;
};

TEST_F(VersionLoopTest, DecidesOnceWhileNothingChanges) {
  EXPECT_EQ(loop_.RunOnce(), absl::InfiniteDuration());
  EXPECT_EQ(loop_.RunOnce(), absl::InfiniteDuration()) << "its event is on its way";
  answer_({});
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(loop_.RunOnce(), absl::InfiniteDuration());
  EXPECT_EQ(runs_, 1);
}

TEST_F(VersionLoopTest, DecidesAgainALittleLaterWhereAPartOfItsEventWasVoid) {
  loop_.RunOnce();
  answer_({.partly_void = true});
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(loop_.RunOnce(), VersionLoop::kRetryAfter);
  EXPECT_EQ(runs_, 1);
  clock_.Advance(VersionLoop::kRetryAfter);
  loop_.RunOnce();
  EXPECT_EQ(runs_, 2);
  answer_({});
  EXPECT_EQ(loop_.RunOnce(), absl::InfiniteDuration());
  EXPECT_EQ(runs_, 2);
}

TEST_F(VersionLoopTest, WaitsALittleAfterARefusal) {
  loop_.RunOnce();
  answer_({.status = absl::ResourceExhaustedError("the disk is full")});
  EXPECT_EQ(loop_.RunOnce(), VersionLoop::kRetryAfter);
  clock_.Advance(VersionLoop::kRetryAfter);
  loop_.RunOnce();
  EXPECT_EQ(runs_, 2);
}

}  // namespace
}  // namespace muster::controller
