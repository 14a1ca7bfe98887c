#include "common/rpc/packed_queue.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "muster/v1/worker_service.pb.h"
#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::ControllerMessage Ack(uint64_t seq) {
  v1::ControllerMessage message;
  message.mutable_event_ack()->set_event_seq(seq);
  return message;
}

v1::ControllerMessage Large(size_t bytes) {
  v1::ControllerMessage message;
  message.mutable_start_ranks()->set_spec_json(std::string(bytes, 'x'));
  return message;
}

std::vector<uint64_t> Seqs(const v1::ControllerMessage& message) {
  std::vector<uint64_t> seqs;
  ForEachPacked(message, [&](const v1::ControllerMessage& each) {
    seqs.push_back(each.event_ack().event_seq());
    return true;
  });
  return seqs;
}

TEST(PackedQueue, WhatWaitsTravelsTogetherInItsOrder) {
  PackedQueue<v1::ControllerMessage> queue;
  for (uint64_t seq = 1; seq <= 3; ++seq) queue.Push(Ack(seq));
  const v1::ControllerMessage message = queue.Take();
  EXPECT_THAT(Seqs(message), ElementsAre(1, 2, 3));
  EXPECT_OK(CheckPacked(message));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.bytes(), 0u);
}

TEST(PackedQueue, OneAloneTravelsAsItIs) {
  PackedQueue<v1::ControllerMessage> queue;
  queue.Push(Ack(7));
  EXPECT_EQ(queue.Take().SerializeAsString(), Ack(7).SerializeAsString());
}

TEST(PackedQueue, SoManyTravelTogetherAndTheRestNext) {
  PackedQueue<v1::ControllerMessage> queue;
  constexpr uint64_t kFit = kMostPacked + 1;  // the first one and its `more`
  for (uint64_t seq = 1; seq <= kFit + 2; ++seq) queue.Push(Ack(seq));
  const v1::ControllerMessage message = queue.Take();
  EXPECT_EQ(Seqs(message).size(), kFit);
  EXPECT_EQ(Seqs(message).back(), kFit);
  EXPECT_OK(CheckPacked(message));
  EXPECT_THAT(Seqs(queue.Take()), ElementsAre(kFit + 1, kFit + 2));
}

TEST(PackedQueue, SoManyBytesTravelTogether) {
  PackedQueue<v1::ControllerMessage> queue;
  for (int i = 0; i < 3; ++i) queue.Push(Large(kMostPackedBytes / 2 - 100));
  const size_t all = queue.bytes();
  const v1::ControllerMessage message = queue.Take();
  EXPECT_EQ(message.more_size(), 1);
  EXPECT_EQ(queue.bytes(), all / 3);
  EXPECT_EQ(queue.Take().more_size(), 0);
}

TEST(PackedQueue, AMessageBeyondTheBytesTravelsAlone) {
  PackedQueue<v1::ControllerMessage> queue;
  queue.Push(Ack(1));
  queue.Push(Large(2 * kMostPackedBytes));
  queue.Push(Ack(2));
  EXPECT_THAT(Seqs(queue.Take()), ElementsAre(1));
  const v1::ControllerMessage large = queue.Take();
  EXPECT_EQ(large.start_ranks().spec_json().size(), 2 * kMostPackedBytes);
  EXPECT_EQ(large.more_size(), 0);
  EXPECT_THAT(Seqs(queue.Take()), ElementsAre(2));
}

TEST(PackedQueue, TheNewestCanBeTakenBack) {
  PackedQueue<v1::ControllerMessage> queue;
  queue.Push(Ack(1));
  const size_t bytes = queue.bytes();
  queue.Push(Ack(300));
  EXPECT_EQ(queue.newest().event_ack().event_seq(), 300u);
  queue.DropNewest();
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.bytes(), bytes);
}

TEST(PackedQueue, MessagesWithoutMoreTravelAlone) {
  PackedQueue<v1::BulkAck> queue;
  for (uint64_t id = 1; id <= 2; ++id) {
    v1::BulkAck ack;
    ack.set_batch_id(id);
    queue.Push(ack);
  }
  EXPECT_EQ(queue.Take().batch_id(), 1u);
  EXPECT_EQ(queue.size(), 1u);
}

TEST(CheckPacked, MoreThanMayTravelTogetherIsRefused) {
  v1::ControllerMessage message = Ack(1);
  for (int i = 0; i < kMostPacked; ++i) *message.add_more() = Ack(2);
  EXPECT_OK(CheckPacked(message));
  message.add_more();
  EXPECT_THAT(CheckPacked(message),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 64")));
}

TEST(CheckPacked, MoreInsideOfMoreIsRefused) {
  v1::ControllerMessage message = Ack(1);
  *message.add_more() = Ack(2);
  *message.mutable_more(0)->add_more() = Ack(3);
  EXPECT_THAT(CheckPacked(message),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of its own")));
}

TEST(ForEachPacked, EndsWhenItIsTold) {
  v1::ControllerMessage message = Ack(1);
  for (uint64_t seq = 2; seq <= 3; ++seq) *message.add_more() = Ack(seq);
  std::vector<uint64_t> seen;
  ForEachPacked(message, [&](const v1::ControllerMessage& each) {
    seen.push_back(each.event_ack().event_seq());
    return seen.size() < 2;
  });
  EXPECT_THAT(seen, ElementsAre(1, 2));
}

}  // namespace
}  // namespace muster
