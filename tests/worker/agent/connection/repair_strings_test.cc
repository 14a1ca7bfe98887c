#include "worker/agent/connection/repair_strings.h"

#include <gtest/gtest.h>

#include <string>

#include "muster/v1/worker_service.pb.h"

namespace muster::worker {
namespace {

TEST(RepairStrings, AnyStringAtAnyDepthCanBeReadByTheOtherSide) {
  v1::WorkerMessage message;
  v1::Heartbeat& heartbeat = *message.mutable_heartbeat();
  v1::RankStatus& rank = *heartbeat.add_ranks();
  rank.set_phase("eval\xff");
  (*rank.mutable_latest())["accuracy"] = 0.5;
  heartbeat.mutable_roots()->add_roots()->set_message("\xe9t\xe9");
  v1::Heartbeat read;
  RepairStrings(message);
  ASSERT_TRUE(read.ParseFromString(heartbeat.SerializeAsString()));
  EXPECT_EQ(read.ranks(0).phase(), "eval?");
  EXPECT_EQ(read.ranks(0).latest().at("accuracy"), 0.5);
  EXPECT_EQ(read.roots().roots(0).message(), "?t?");
}

TEST(RepairStrings, BytesAndGoodTextStayAsTheyAre) {
  v1::WorkerMessage message;
  message.mutable_hello()->set_identity("\xff\xfe");
  message.mutable_hello()->set_worker_name("m\xc3\xbcller");
  const std::string before = message.SerializeAsString();
  RepairStrings(message);
  EXPECT_EQ(message.SerializeAsString(), before);
}

}  // namespace
}  // namespace muster::worker
