#include "common/spec/tree/scheduling_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::StatusCode kBad = absl::StatusCode::kInvalidArgument;

TEST(SchedulingTextTest, APoolMayWait) {
  EXPECT_EQ(ParsePoolChoice("spot")->after, absl::ZeroDuration());
  EXPECT_EQ(ParsePoolChoice("ondemand after 10m")->name, "ondemand");
  EXPECT_EQ(ParsePoolChoice("ondemand after 10m")->after, absl::Minutes(10));
  EXPECT_THAT(ParsePoolChoice("a b").status(), StatusIs(kBad, HasSubstr("after 10m")));
  EXPECT_THAT(ParsePoolChoice("a after -1s").status(), StatusIs(kBad, HasSubstr("")));
}

TEST(SchedulingTextTest, ADependencySaysHowTheOtherJobMustEnd) {
  EXPECT_EQ(ParseDependency("42")->job_id, 42u);
  EXPECT_EQ(ParseDependency("42")->task, std::nullopt);
  EXPECT_EQ(ParseDependency("42_7:any")->job_id, 42u);
  EXPECT_EQ(ParseDependency("42_7:any")->task, 7u);
  for (const char* bad : {"42_", "_7", "42_x", "42_7_1"}) {
    EXPECT_FALSE(ParseDependency(bad).ok()) << bad;
  }
  EXPECT_EQ(ParseDependency("42")->on, JobDependency::On::kSuccess);
  EXPECT_EQ(ParseDependency("42:fail")->on, JobDependency::On::kFailure);
  EXPECT_EQ(ParseDependency("42:any")->on, JobDependency::On::kEnd);
  for (const char* bad : {"", "0", "x", "42:", "42:maybe", ":ok", "-1"}) {
    EXPECT_THAT(ParseDependency(bad).status(), StatusIs(kBad, HasSubstr(""))) << bad;
  }
}

TEST(SchedulingTextTest, AnArrayHasEndsAndABound) {
  EXPECT_EQ(ParseArray("1-20%4")->first, 1u);
  EXPECT_EQ(ParseArray("1-20%4")->last, 20u);
  EXPECT_EQ(ParseArray("1-20%4")->at_a_time, 4u);
  EXPECT_EQ(ParseArray("7")->last, 7u);
  for (const char* bad : {"", "a", "3-1", "1-2-3", "1-2%0", "1-2%", "1-20000", "1-2%3%4", "-5"}) {
    EXPECT_THAT(ParseArray(bad).status(), StatusIs(kBad, HasSubstr(""))) << bad;
  }
}

TEST(SchedulingTextTest, TimesHaveAZoneAndMemoryAUnit) {
  EXPECT_EQ(*ParseWallTime("1970-01-01T00:00:10Z"), absl::FromUnixSeconds(10));
  EXPECT_THAT(ParseWallTime("1970-01-01 00:00").status(), StatusIs(kBad, HasSubstr("zone")));
  EXPECT_EQ(*ParseMemory("2GiB"), 2ull << 30);
  EXPECT_THAT(ParseMemory("0").status(), StatusIs(kBad, HasSubstr("above 0")));
}

}  // namespace
}  // namespace muster
