#include "worker/agent/base/backoff.h"

#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

TEST(Backoff, GrowsToItsCapWithJitterAndStartsOver) {
  Backoff backoff(absl::Milliseconds(50), absl::Seconds(1), 7);
  absl::Duration step = absl::Milliseconds(50);
  for (int i = 0; i < 40; ++i) {
    const absl::Duration pause = backoff.Next();
    EXPECT_GE(pause, step / 2);
    EXPECT_LE(pause, step);
    step = std::min(step * 2, absl::Seconds(1));
  }
  backoff.Reset();
  EXPECT_LE(backoff.Next(), absl::Milliseconds(50));
  EXPECT_NE(Backoff(absl::Seconds(1), absl::Seconds(1), 1).Next(),
            Backoff(absl::Seconds(1), absl::Seconds(1), 2).Next());
}

}  // namespace
}  // namespace muster::worker
