#include "worker/agent/event_outbox.h"

#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

v1::WorkerMessage Exited(uint32_t rank) {
  v1::WorkerMessage message;
  message.mutable_rank_event()->set_rank(rank);
  return message;
}

v1::WorkerMessage CheckpointOf(v1::CheckpointEvent::Kind kind, int64_t step) {
  v1::WorkerMessage message;
  message.mutable_checkpoint_event()->mutable_fence()->set_job_id(1);
  message.mutable_checkpoint_event()->set_kind(kind);
  message.mutable_checkpoint_event()->set_step(step);
  return message;
}

TEST(EventOutbox, NumbersFromOneAndKeepsUntilAcknowledged) {
  EventOutbox outbox;
  EXPECT_EQ(outbox.Add(Exited(0))->event_seq(), 1u);
  EXPECT_EQ(outbox.Add(Exited(1))->event_seq(), 2u);
  outbox.OnEventAck(1);
  ASSERT_EQ(outbox.Unacknowledged().size(), 1u);
  EXPECT_EQ(outbox.Unacknowledged()[0]->event_seq(), 2u);
  outbox.OnEventAck(2);
  outbox.OnEventAck(99);
  EXPECT_TRUE(outbox.empty());
}

TEST(EventOutbox, AnAcknowledgementStandsForAllBeforeIt) {
  EventOutbox outbox;
  outbox.Add(Exited(0));
  outbox.Add(CheckpointOf(v1::CheckpointEvent::COMMIT, 10));
  outbox.Add(Exited(1));
  outbox.Add(Exited(2));
  outbox.OnEventAck(5);  // never sent
  EXPECT_EQ(outbox.size(), 4u);
  outbox.OnEventAck(3);
  ASSERT_EQ(outbox.size(), 2u);  // the commit waits for its CheckpointAck
  EXPECT_EQ(outbox.Unacknowledged()[0]->event_seq(), 2u);
  EXPECT_EQ(outbox.Unacknowledged()[1]->event_seq(), 4u);
}

TEST(EventOutbox, ACommitStaysUntilItsCheckpointAck) {
  EventOutbox outbox;
  outbox.Add(CheckpointOf(v1::CheckpointEvent::COMMIT, 10));
  outbox.OnEventAck(1);
  EXPECT_EQ(outbox.size(), 1u);
  v1::CheckpointAck ack;
  ack.mutable_fence()->set_job_id(1);
  ack.set_step(9);
  outbox.OnCheckpointAck(ack);
  EXPECT_EQ(outbox.size(), 1u);
  ack.set_step(10);
  outbox.OnCheckpointAck(ack);
  EXPECT_TRUE(outbox.empty());
}

TEST(EventOutbox, MinorEventsAreBoundedOthersAreNot) {
  EventOutbox outbox;
  for (size_t i = 0; i < EventOutbox::kMaxMinorEvents; ++i) {
    EXPECT_NE(outbox.Add(CheckpointOf(v1::CheckpointEvent::BEGIN, 1)), nullptr);
  }
  EXPECT_EQ(outbox.Add(CheckpointOf(v1::CheckpointEvent::BEGIN, 1)), nullptr);
  EXPECT_EQ(outbox.Add(Exited(0))->event_seq(), EventOutbox::kMaxMinorEvents + 1);
}

}  // namespace
}  // namespace muster::worker
