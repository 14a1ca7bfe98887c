#include "common/base/units.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

TEST(UnitsTest, ParsesDurationsOfOneOrMoreUnits) {
  EXPECT_EQ(*ParseDuration("90s"), absl::Seconds(90));
  EXPECT_EQ(*ParseDuration("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseDuration("250ms"), absl::Milliseconds(250));
  EXPECT_EQ(*ParseDuration("1.5d"), absl::Hours(36));
}

TEST(UnitsTest, RefusesWhatIsNoDuration) {
  for (const char* text : {"", "5", "m", "5 m", "-3s", "5x", "1h30", "1..2s"}) {
    EXPECT_THAT(ParseDuration(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no duration")))
        << text;
  }
}

TEST(UnitsTest, ParsesSizes) {
  EXPECT_EQ(*ParseBytes("512"), 512u);
  EXPECT_EQ(*ParseBytes("64MiB"), 64u << 20);
  EXPECT_EQ(*ParseBytes("1.5GB"), 1'500'000'000u);
  for (const char* text : {"", "MiB", "5 MiB", "5mib", "-1", "9999999999TB"}) {
    EXPECT_THAT(ParseBytes(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no size")))
        << text;
  }
}

TEST(UnitsTest, FormatsForPeople) {
  EXPECT_EQ(HumanDuration(absl::Seconds(10'020)), "2h47m");
  EXPECT_EQ(HumanDuration(absl::Seconds(12)), "12s");
  EXPECT_EQ(HumanDuration(absl::Minutes(5)), "5m");
  EXPECT_EQ(HumanDuration(absl::Hours(76)), "3d4h");
  EXPECT_EQ(HumanDuration(absl::Milliseconds(450)), "450ms");
  EXPECT_EQ(HumanDuration(absl::Seconds(-1)), "0s");
  EXPECT_EQ(Rfc3339Text(absl::FromUnixMillis(1'700'000'000'999)), "2023-11-14T22:13:20Z");
  EXPECT_EQ(HumanBytes(17), "17 B");
  EXPECT_EQ(HumanBytes(1536.0 * 1024 * 1024), "1.5 GiB");
  EXPECT_EQ(HumanBytes(312.0 * 1024 * 1024), "312 MiB");
}

}  // namespace
}  // namespace muster
