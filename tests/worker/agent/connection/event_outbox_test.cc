#include "worker/agent/connection/event_outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace muster::worker {
namespace {

using ::testing::ElementsAre;

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

std::vector<uint64_t> Numbers(const EventOutbox& outbox) {
  std::vector<uint64_t> numbers;
  while (const v1::WorkerMessage* event = outbox.After(numbers.empty() ? 0 : numbers.back())) {
    numbers.push_back(event->event_seq());
  }
  return numbers;
}

TEST(EventOutbox, NumbersFromOneAndKeepsUntilAcknowledged) {
  EventOutbox outbox;
  EXPECT_TRUE(outbox.Add(Exited(0)));
  EXPECT_TRUE(outbox.Add(Exited(1)));
  EXPECT_THAT(Numbers(outbox), ElementsAre(1, 2));
  outbox.OnEventAck(1);
  EXPECT_THAT(Numbers(outbox), ElementsAre(2));
  outbox.OnEventAck(2);
  outbox.OnEventAck(99);
  EXPECT_TRUE(outbox.empty());
  EXPECT_EQ(outbox.acknowledged(), 2u);
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
  EXPECT_THAT(Numbers(outbox), ElementsAre(2, 4)) << "the commit waits for its CheckpointAck";
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
    EXPECT_TRUE(outbox.Add(CheckpointOf(v1::CheckpointEvent::BEGIN, 1)));
  }
  EXPECT_FALSE(outbox.Add(CheckpointOf(v1::CheckpointEvent::BEGIN, 1)));
  EXPECT_FALSE(outbox.Add(CheckpointOf(v1::CheckpointEvent::FAILED, 1)));
  EXPECT_TRUE(outbox.Add(Exited(0)));
  EXPECT_EQ(outbox.size(), EventOutbox::kMaxMinorEvents + 1);
}

}  // namespace
}  // namespace muster::worker
