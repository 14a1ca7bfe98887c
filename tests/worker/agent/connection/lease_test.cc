#include "worker/agent/connection/lease.h"

#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

TEST(Lease, CountsFromTheSendOfTheLastAcknowledgedHeartbeat) {
  Lease lease;
  const absl::Duration t0 = absl::Hours(1);
  EXPECT_FALSE(lease.Holds(t0));
  EXPECT_FALSE(lease.AllowsPublish(t0));
  lease.Begin(absl::Seconds(10));
  lease.Sent(1, t0);
  lease.Sent(2, t0 + absl::Seconds(3));
  EXPECT_FALSE(lease.Holds(t0));
  EXPECT_TRUE(lease.Acknowledged(1));  // arrives late: counts from the send all the same
  EXPECT_TRUE(lease.Holds(t0 + absl::Seconds(9)));
  EXPECT_TRUE(lease.AllowsPublish(t0 + absl::Seconds(7)));
  EXPECT_FALSE(lease.AllowsPublish(t0 + absl::Seconds(9)));  // too little left for a rename
  EXPECT_FALSE(lease.Holds(t0 + absl::Seconds(10)));
  EXPECT_TRUE(lease.Acknowledged(2));
  EXPECT_TRUE(lease.Holds(t0 + absl::Seconds(12)));
  EXPECT_FALSE(lease.Acknowledged(2));
  EXPECT_FALSE(lease.Acknowledged(77));
}

TEST(Lease, ANewSessionForgetsOldHeartbeatsButNotWhatTheyEarned) {
  Lease lease;
  lease.Begin(absl::Seconds(10));
  lease.Sent(1, absl::ZeroDuration());
  ASSERT_TRUE(lease.Acknowledged(1));
  lease.Sent(2, absl::Seconds(1));
  lease.Begin(absl::Seconds(10));
  EXPECT_FALSE(lease.Acknowledged(2));
  EXPECT_TRUE(lease.Holds(absl::Seconds(9)));
}

}  // namespace
}  // namespace muster::worker
