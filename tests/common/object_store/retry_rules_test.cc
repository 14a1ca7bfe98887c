#include "common/object_store/retry_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace muster::testing {
namespace {

TEST(RetryRules, OnlyWhatMayPassIsRepeated) {
  for (const int code : {408, 429, 500, 502, 503, 504}) EXPECT_TRUE(MayPass(code)) << code;
  for (const int code : {200, 301, 400, 401, 403, 404, 412, 416, 501}) {
    EXPECT_FALSE(MayPass(code)) << code;
  }
  EXPECT_TRUE(MayPass(absl::UnavailableError("")));
  EXPECT_TRUE(MayPass(absl::DeadlineExceededError("")));
  EXPECT_FALSE(MayPass(absl::FailedPreconditionError("")));
}

TEST(RetryRules, DelaysDoubleUpToABoundAndAreSpread) {
  const RetryPolicy policy;
  std::set<absl::Duration> seen;
  for (int attempt = 1; attempt < 60; ++attempt) {
    const absl::Duration whole =
        std::min(policy.max_delay,
                 policy.first_delay * static_cast<int64_t>(1) * (1LL << std::min(attempt - 1, 30)));
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const absl::Duration delay = RetryDelay(policy, attempt, absl::ZeroDuration(), seed);
      EXPECT_GE(delay, whole / 2);
      EXPECT_LE(delay, whole);
      seen.insert(delay);
    }
  }
  EXPECT_GT(seen.size(), 150u);
}

TEST(RetryRules, AServerMayAskForMoreButNotForEver) {
  const RetryPolicy policy;
  EXPECT_EQ(RetryDelay(policy, 1, absl::Seconds(3), 0), absl::Seconds(3));
  EXPECT_EQ(RetryDelay(policy, 1, absl::Hours(24 * 365), 0), policy.max_delay);
}

TEST(RetryRules, ACodeSaysWhatTheCallerShouldDo) {
  EXPECT_EQ(CodeOfHttp(403), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOfHttp(404), absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeOfHttp(416), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(CodeOfHttp(503), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CodeOfHttp(400), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace muster::testing
