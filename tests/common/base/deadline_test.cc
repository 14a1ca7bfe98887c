#include "common/base/deadline.h"

#include <gtest/gtest.h>

#include "common/base/mutex.h"

namespace muster {
namespace {

TEST(Deadline, IsOverOnceItsTimeHasPassed) {
  EXPECT_TRUE(Deadline(absl::ZeroDuration()).over());
  EXPECT_EQ(Deadline(-absl::Seconds(3)).left(), absl::ZeroDuration());
  const Deadline far(absl::Hours(1));
  EXPECT_FALSE(far.over());
  EXPECT_GT(far.left(), absl::Minutes(59));
  EXPECT_LE(far.left(), absl::Hours(1));
  EXPECT_EQ(Deadline(absl::InfiniteDuration()).left(), absl::InfiniteDuration());
}

TEST(Deadline, BoundsAWaitOnACondition) {
  Mutex mutex;
  CondVar never;
  const Deadline deadline(absl::Milliseconds(20));
  MutexLock lock(mutex);
  while (!deadline.over()) never.WaitFor(mutex, deadline.left());
  EXPECT_FALSE(never.WaitFor(mutex, absl::ZeroDuration()));
  EXPECT_FALSE(never.WaitFor(mutex, -absl::Seconds(1)));
}

}  // namespace
}  // namespace muster
