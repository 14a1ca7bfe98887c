#include "worker/agent/gang/assignment_log.h"

#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

TEST(AssignmentLog, TakesOnceAndRemembersTheAnswer) {
  AssignmentLog log;
  EXPECT_TRUE(log.Take(5));
  EXPECT_EQ(log.AnswerOf(5), std::nullopt);
  EXPECT_FALSE(log.Take(5));
  log.Answer(5, "no slot");
  EXPECT_EQ(log.AnswerOf(5), "no slot");
  EXPECT_TRUE(log.Take(4));
}

}  // namespace
}  // namespace muster::worker
