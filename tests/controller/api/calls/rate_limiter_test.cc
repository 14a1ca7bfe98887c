#include "controller/api/calls/rate_limiter.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace muster::controller {
namespace {

constexpr RateLimit kTenASecond = {.per_second = 10, .burst = 3};

TEST(TokenBucketTest, ARestedBucketGivesItsBurstAndThenOneAtATime) {
  TokenBucket bucket(kTenASecond, absl::ZeroDuration());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bucket.Take(kTenASecond, absl::ZeroDuration()), absl::ZeroDuration());
  }
  EXPECT_EQ(bucket.Take(kTenASecond, absl::ZeroDuration()), absl::Milliseconds(100));
  EXPECT_EQ(bucket.Take(kTenASecond, absl::Milliseconds(25)), absl::Milliseconds(75));
  EXPECT_EQ(bucket.Take(kTenASecond, absl::Milliseconds(100)), absl::ZeroDuration());
  EXPECT_GT(bucket.Take(kTenASecond, absl::Milliseconds(101)), absl::ZeroDuration());
}

TEST(TokenBucketTest, APauseBringsBackNoMoreThanTheBurst) {
  TokenBucket bucket(kTenASecond, absl::ZeroDuration());
  const absl::Duration later = absl::Hours(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bucket.Take(kTenASecond, later), absl::ZeroDuration());
  }
  EXPECT_GT(bucket.Take(kTenASecond, later), absl::ZeroDuration());
}

TEST(TokenBucketTest, AClockThatStepsBackGivesNothing) {
  TokenBucket bucket(kTenASecond, absl::Seconds(10));
  for (int i = 0; i < 3; ++i) bucket.Take(kTenASecond, absl::Seconds(10));
  EXPECT_GT(bucket.Take(kTenASecond, absl::Seconds(1)), absl::ZeroDuration());
  EXPECT_EQ(bucket.Take(kTenASecond, absl::Seconds(11)), absl::ZeroDuration());
}

TEST(RateLimiterTest, EachPrincipalHasItsOwnBucket) {
  RateLimiter limiter({.per_second = 1, .burst = 1});
  EXPECT_EQ(limiter.Admit("a", {}), absl::ZeroDuration());
  EXPECT_EQ(limiter.Admit("a", {}), absl::Seconds(1));
  EXPECT_EQ(limiter.Admit("b", {}), absl::ZeroDuration());
}

TEST(RateLimiterTest, WithoutALimitEverybodyPasses) {
  RateLimiter limiter({});
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(limiter.Admit("a", {}), absl::ZeroDuration());
  EXPECT_EQ(limiter.size(), 0u);
}

TEST(RateLimiterTest, MemoryIsBoundedAndNewcomersShareABucketUntilOthersRest) {
  RateLimiter limiter({.per_second = 1, .burst = 1});
  for (size_t i = 0; i < RateLimiter::kMaxPrincipals; ++i) limiter.Admit(absl::StrCat("p", i), {});
  EXPECT_EQ(limiter.Admit("new-1", {}), absl::ZeroDuration());
  EXPECT_GT(limiter.Admit("new-2", {}), absl::ZeroDuration()) << "shares it with new-1";
  EXPECT_EQ(limiter.size(), RateLimiter::kMaxPrincipals + 1);
  EXPECT_GT(limiter.Admit("p0", {}), absl::ZeroDuration()) << "known ones keep their own";
  EXPECT_EQ(limiter.Admit("new-2", absl::Minutes(1)), absl::ZeroDuration());
  EXPECT_EQ(limiter.size(), 1u) << "the rested ones are forgotten";
}

}  // namespace
}  // namespace muster::controller
