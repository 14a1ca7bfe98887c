#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "controller/api/convert/convert.h"
#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;

TEST(DataVerdictsTest, WhatAnAgentSaysOfDataIsTaken) {
  v1::Heartbeat heartbeat;
  EXPECT_TRUE(DataVerdictsOf(heartbeat)->empty());
  v1::DataReport::Verdict& said = *heartbeat.mutable_data()->add_verdicts();
  said.set_key("k");
  said.set_number(3);
  said.set_fault("missing");
  said.set_error("not there");
  said.set_fingerprint("f");
  const auto taken = DataVerdictsOf(heartbeat);
  ASSERT_OK(taken);
  ASSERT_EQ(taken->size(), 1u);
  EXPECT_EQ(taken->front().key, "k");
  EXPECT_EQ(taken->front().number, 3u);
  EXPECT_EQ(taken->front().fault, "missing");
  EXPECT_EQ(taken->front().error, "not there");
  EXPECT_EQ(taken->front().fingerprint, "f");
}

TEST(DataVerdictsTest, TextsAreCutAndTooManyVerdictsAreRefused) {
  v1::Heartbeat heartbeat;
  heartbeat.mutable_data()->add_verdicts()->set_error(std::string(1 << 20, 'x'));
  EXPECT_EQ(DataVerdictsOf(heartbeat)->front().error.size(), 1024u);
  for (size_t i = 0; i < kMaxDataViews; ++i) heartbeat.mutable_data()->add_verdicts();
  EXPECT_THAT(DataVerdictsOf(heartbeat), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(DataVerdictsTest, AQuestionIsPutToTheAgentAsItStands) {
  Assignment question{.seq = 0, .body = CheckDataAssignment{.key = "k", .number = 9, .spec = ""}};
  const v1::ControllerMessage message = ToProto(question);
  ASSERT_TRUE(message.has_check_data());
  EXPECT_EQ(message.check_data().key(), "k");
  EXPECT_EQ(message.check_data().number(), 9u);
}

}  // namespace
}  // namespace muster::controller
