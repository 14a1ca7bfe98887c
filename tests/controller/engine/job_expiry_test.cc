// Ended jobs that are forgotten, by a whole engine over a real state.db.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "controller/engine/engine.h"
#include "tests/support/controller_fixture.h"
#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

class JobExpiryTest : public ::muster::testing::ControllerFixture {
 protected:
  JobExpiryTest() { expiry_ = {.after = absl::Minutes(10)}; }

  uint64_t RunToItsEnd(Agent& agent, const std::string& name = "job") {
    const uint64_t id = Submit({.name = name});
    const Fence fence = StartRanks(agent).fence;
    Advance(absl::Seconds(5));
    ReportExit(agent, fence, 0, {.succeeded = true});
    EXPECT_EQ(snapshot()->FindJob(id)->state, JobState::kSucceeded);
    return id;
  }
};

TEST_F(JobExpiryTest, AnEndedJobGoesWithAllThatBelongsToIt) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t ran = RunToItsEnd(one);
  const uint64_t cancelled = Submit({.min_ranks = 2, .wait_for_capacity = true, .key = "k"});
  EXPECT_OK(Cancel(cancelled));
  const uint64_t waits = Submit({.min_ranks = 2, .wait_for_capacity = true, .name = "waits"});
  const uint64_t last_event = snapshot()->last_event;
  Advance(absl::Minutes(9));
  EXPECT_NE(snapshot()->FindJob(ran), nullptr);
  Advance(absl::Minutes(2));
  EXPECT_EQ(snapshot()->jobs.size(), 1u);
  EXPECT_EQ(snapshot()->FindJob(ran), nullptr);
  EXPECT_EQ(snapshot()->FindJobByName("job"), nullptr);
  const absl::Duration held = snapshot()->FindProject("default")->forgotten_held.total();
  EXPECT_GE(held, absl::Seconds(5));
  EXPECT_EQ(snapshot()->counters.jobs_forgotten.at(JobState::kSucceeded), 1u);
  snapshot()->events.ForEach(
      [&](const JobEvent& event) { EXPECT_EQ(event.job_id, waits) << event.sequence; });
  const absl::Status gone = Cancel(ran);
  EXPECT_THAT(gone, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(std::string(gone.message()), HasSubstr("is forgotten"));
  EXPECT_THAT(std::string(Cancel(99).message()), HasSubstr("no such job"));

  Restart();
  EXPECT_EQ(snapshot()->jobs.size(), 1u);
  EXPECT_EQ(state(waits), JobState::kPending);
  EXPECT_GE(snapshot()->last_event, last_event);
  EXPECT_EQ(snapshot()->FindProject("default")->forgotten_held.total(), held);
  // Neither ids nor the sequences of events are given again; a key is.
  Connect(one);
  const uint64_t next = Submit({.key = "k"});
  EXPECT_EQ(next, waits + 1);
  EXPECT_GT(snapshot()->FindJob(next)->events.front()->sequence, last_event);
  Restart();
  EXPECT_EQ(snapshot()->jobs.size(), 2u);
}

TEST_F(JobExpiryTest, TheLastIdsAreNotGivenAgainAfterARestart) {
  const uint64_t id = Submit({.min_ranks = 2, .wait_for_capacity = true});
  EXPECT_OK(Cancel(id));
  const uint64_t last_event = snapshot()->last_event;
  Advance(absl::Minutes(11));
  EXPECT_EQ(snapshot()->jobs.size(), 0u);
  Restart();
  EXPECT_EQ(snapshot()->last_event, last_event);
  EXPECT_EQ(Submit({.min_ranks = 2, .wait_for_capacity = true}), id + 1);
  Restart();
  EXPECT_EQ(snapshot()->jobs.size(), 1u);
}

TEST_F(JobExpiryTest, WhatStillHasACheckpointStaysUntilThatIsGone) {
  Agent one = ConnectNew("worker-1", 1);
  const uint64_t id = Submit();
  const Fence fence = StartRanks(one).fence;
  EXPECT_OK(Apply(MakeCommit(one, fence, 5)).status);
  ReportExit(one, fence, 0, {.succeeded = true});
  Advance(absl::Hours(1));
  EXPECT_NE(snapshot()->FindJob(id), nullptr);
}

TEST_F(JobExpiryTest, BeyondTheirNumberTheOldestGo) {
  expiry_ = {.after = absl::InfiniteDuration(), .most = 2};
  Restart();
  for (int i = 0; i < 5; ++i) {
    EXPECT_OK(Cancel(Submit({.min_ranks = 2, .wait_for_capacity = true})));
  }
  Advance(absl::Seconds(1));
  EXPECT_EQ(snapshot()->jobs.size(), 2u);
  EXPECT_NE(snapshot()->FindJob(5), nullptr);
  EXPECT_EQ(snapshot()->FindJobByName("job")->id, 5u);
}

}  // namespace
}  // namespace muster::controller
