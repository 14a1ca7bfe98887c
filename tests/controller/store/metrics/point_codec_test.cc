#include "controller/store/metrics/points/point_codec.h"

#include <cmath>
#include <limits>

#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;

PointsByName Sample() {
  PointsByName points;
  points[1] = {{0, 1'700'000'000'000, 2.5}, {10, 1'700'000'001'000, -0.0}};
  points[7] = {{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), 1e308},
               {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
                std::numeric_limits<double>::quiet_NaN()}};
  return points;
}

TEST(PointCodecTest, EveryPointComesBackByItsName) {
  const std::string blob = PackPoints(Sample());
  for (const auto& [id, series] : Sample()) {
    std::vector<PackedPoint> out;
    ASSERT_OK(UnpackPoints(blob, id, out));
    ASSERT_EQ(out.size(), series.size());
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_EQ(out[i].step, series[i].step);
      EXPECT_EQ(out[i].time_ms, series[i].time_ms);
      if (std::isnan(series[i].value)) {
        EXPECT_TRUE(std::isnan(out[i].value));
      } else {
        EXPECT_EQ(out[i].value, series[i].value);
      }
    }
  }
}

TEST(PointCodecTest, ANameThatIsNotThereGivesNothing) {
  std::vector<PackedPoint> out;
  EXPECT_OK(UnpackPoints(PackPoints(Sample()), 2, out));
  EXPECT_TRUE(out.empty());
}

TEST(PointCodecTest, EveryCutIsDataLossOrAWholeSection) {
  const std::string blob = PackPoints(Sample());
  size_t whole = 0;
  for (size_t length = 0; length < blob.size(); ++length) {
    std::vector<PackedPoint> out;
    const absl::Status status = UnpackPoints(absl::string_view(blob).substr(0, length), 7, out);
    if (status.ok()) {
      ++whole;  // nothing, or the first section alone
      EXPECT_TRUE(out.empty());
    } else {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss));
    }
  }
  EXPECT_EQ(whole, 2u);
}

TEST(PointCodecTest, ACountThatLiesIsDataLoss) {
  PointsByName points;
  points[1] = {{1, 1, 1.0}};
  std::string blob = PackPoints(points);
  std::vector<PackedPoint> out;
  blob[1] = 2;  // two points announced, one there
  EXPECT_THAT(UnpackPoints(blob, 1, out), StatusIs(absl::StatusCode::kDataLoss));
  blob[1] = 0;  // none announced, one there
  EXPECT_THAT(UnpackPoints(blob, 1, out), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace muster::controller
