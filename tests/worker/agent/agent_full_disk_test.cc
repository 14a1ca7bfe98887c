// The disk of the agent's data folder is full for a while: what runs there runs on, what cannot
// begin says why, and nothing is lost but what is told to be.
#include <fstream>

#include "tests/support/full_file_system.h"
#include "tests/worker/agent/agent_fixture.h"

namespace muster::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

bool Committed(const Heard& heard) {
  for (const auto& [seq, event] : heard.events) {
    if (event.checkpoint_event().kind() == v1::CheckpointEvent::COMMIT) return true;
  }
  return false;
}

class FullDiskTest : public AgentTest {
 protected:
  FullDiskTest() {
    fs_ = &disk_;
    controller_.Configure([](FakeController::Behaviour& behaviour) {
      behaviour.heartbeat_interval_ms = 50;
      behaviour.lease_ms = 2000;
    });
  }
  ~FullDiskTest() override { EndAgent(); }

  static void Touch(const std::string& path) { std::ofstream(path) << "now"; }
  // Longer than a lease.
  bool BeatsOn() {
    const size_t before = controller_.heard().heartbeats;
    return controller_.Await(
        [before](const Heard& heard) { return heard.heartbeats > before + 50; });
  }

  ::muster::testing::FullFileSystem disk_{PosixFileSystem()};
};

TEST_F(FullDiskTest, WhatRunsRunsOnAndIsHeardOfWhenThereIsRoom) {
  const std::string full = dir_ / "full";
  const std::string room = dir_ / "room";
  StartAgent();
  ASSERT_TRUE(controller_.Send(
      StartMessage(1, {"metrics 2", "await_acks", "print before", "await_file " + full, "metrics 3",
                       "await_again", "checkpoint 8", "print meanwhile", "await_file " + room,
                       "again", "await_acks", "print after", "result succeeded"})));
  ASSERT_TRUE(controller_.Send(OtherStart(
      2, 2, 1, {"await_file " + full, "print gone", "metrics 3", "await_again", "exit 7"})));
  ASSERT_TRUE(controller_.Await(Logged("before")));
  ASSERT_TRUE(
      controller_.Await([](const Heard& heard) { return heard.last_heartbeat.ranks_size() == 2; }));

  disk_.SetFull(true);
  ASSERT_TRUE(BeatsOn());
  Touch(full);
  // Only a rank whose agent holds its lease may publish.
  ASSERT_TRUE(controller_.Await(Committed));
  ASSERT_TRUE(controller_.Await(ExitedIn(2)));
  EXPECT_EQ(controller_.heard().FindEvent(v1::RankEvent::EXITED, 0, 2)->exit_code(), 7);
  ASSERT_TRUE(controller_.Send(OtherStart(3, 3, 2, {"result succeeded"})));
  ASSERT_TRUE(controller_.Await(ExitedIn(3)));
  const v1::RankEvent refused = *controller_.heard().FindEvent(v1::RankEvent::EXITED, 0, 3);
  EXPECT_EQ(refused.failure_class(), v1::START_FAILED);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("data/ranks/"), HasSubstr("No space left")));
  ASSERT_TRUE(BeatsOn());
  EXPECT_EQ(controller_.heard().MetricCount(), 2u);
  EXPECT_EQ(controller_.heard().last_heartbeat.ranks_size(), 1);

  disk_.SetFull(false);
  Touch(room);
  ASSERT_TRUE(controller_.Await(Exited));
  EXPECT_TRUE(controller_.heard().FindEvent(v1::RankEvent::EXITED)->succeeded());
  ASSERT_TRUE(controller_.Await(Logged("after")));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return heard.MetricCount() == 5; }));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return !heard.gaps.empty(); }));
  ASSERT_TRUE(controller_.Send(OtherStart(4, 4, 2, {"result succeeded"})));
  ASSERT_TRUE(controller_.Await(ExitedIn(4)));
  const Heard heard = controller_.heard();
  EXPECT_TRUE(heard.FindEvent(v1::RankEvent::EXITED, 0, 4)->succeeded());
  EXPECT_EQ(heard.Log(),
            "acked\nbefore\nagain after 2\npublished 8\ncommitted 8 error=\nmeanwhile\nacked\n"
            "after\n");
  // The one that ended while nothing of its could be kept is all that lost some.
  ASSERT_EQ(heard.gaps.size(), 1u);
  EXPECT_EQ(heard.gaps[0].job_id(), 2u);
  EXPECT_EQ(heard.gaps[0].first_seq(), 1u);
  EXPECT_EQ(heard.gaps[0].last_seq(), 3u);
  EXPECT_EQ(heard.repeated_records, 0u);
  EXPECT_EQ(heard.hellos.size(), 1u);
}

// Else what fills the disk, its own spool perhaps, would never be sent and go.
TEST_F(FullDiskTest, AnAgentStartsOnAFullDiskAndSendsWhatIsThere) {
  controller_.Configure([](FakeController::Behaviour& behaviour) { behaviour.ack_bulk = false; });
  StartAgent();
  ASSERT_TRUE(controller_.Send(StartMessage(1, {"metrics 2", "await_acks", "result succeeded"})));
  ASSERT_TRUE(controller_.Await(Exited));
  ASSERT_TRUE(controller_.Await(Logged("acked")));
  EndAgent();
  controller_.Configure([](FakeController::Behaviour& behaviour) { behaviour.ack_bulk = true; });

  disk_.SetFull(true);
  const size_t beats = controller_.heard().heartbeats;
  StartAgent();
  ASSERT_OK(result_);
  ASSERT_TRUE(controller_.Await(
      [&](const Heard& heard) { return heard.hellos.size() == 2 && heard.heartbeats > beats; }));
  // Two numbers and a line: the former one sent them too, and was not answered.
  ASSERT_TRUE(controller_.Await([](const Heard& heard) { return heard.repeated_records >= 3; }));
  EXPECT_FALSE(*PosixFileSystem().Exists(dir_ / "data/endpoints.json")) << "it is the former's";

  disk_.SetFull(false);
  ASSERT_TRUE(
      controller_.Send(OtherStart(2, 2, 1, {"metrics 1", "await_acks", "result succeeded"})));
  ASSERT_TRUE(controller_.Await([](const Heard& heard) {
    return heard.metrics.contains(RankKey{2, 2, 1, 0});
  }));
  EXPECT_THAT(controller_.heard().gaps, IsEmpty());
}

}  // namespace
}  // namespace muster::worker
