#include "common/call/grpc_wire.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using testing::StatusIs;

TEST(GrpcWire, APrefixIsReadAsItWasPut) {
  for (const uint32_t bytes : {0u, 1u, 255u, 256u, 70'000u, 0x01020304u, 0xFFFFFFFFu}) {
    std::string prefix(kPrefixBytes, 'x');
    PutPrefix(bytes, prefix.data());
    EXPECT_EQ(ReadPrefix(prefix).bytes, bytes);
    EXPECT_FALSE(ReadPrefix(prefix).compressed);
  }
  EXPECT_TRUE(ReadPrefix(std::string("\1\0\0\0\0", 5)).compressed);
}

TEST(GrpcWire, ATimeoutIsRoundedUpAndHasAtMost8Digits) {
  EXPECT_EQ(TimeoutText(absl::Seconds(10)), "10000m");
  EXPECT_EQ(TimeoutText(absl::Microseconds(1'500)), "2m");
  EXPECT_EQ(TimeoutText(absl::Nanoseconds(1)), "1m");
  EXPECT_EQ(TimeoutText(absl::ZeroDuration()), "1m");
  EXPECT_EQ(TimeoutText(-absl::Seconds(1)), "1m");
  EXPECT_EQ(TimeoutText(absl::Milliseconds(99'999'999)), "99999999m");
  EXPECT_EQ(TimeoutText(absl::Milliseconds(100'000'000)), "100001S");
  EXPECT_EQ(TimeoutText(absl::Hours(24 * 365 * 100)), "99999999S");
}

TEST(GrpcWire, PercentCodesBecomeBytesAndAnythingElseStays) {
  EXPECT_EQ(PercentDecode("a%0Ab%25 %c3%A9"), "a\nb% \xC3\xA9");
  EXPECT_EQ(PercentDecode("100%"), "100%");
  EXPECT_EQ(PercentDecode("%4"), "%4");
  EXPECT_EQ(PercentDecode("%zz%+1"), "%zz%+1");
  EXPECT_EQ(PercentDecode("%%41"), "%A");
  EXPECT_EQ(PercentDecode("%00"), std::string("\0", 1));
  EXPECT_EQ(PercentDecode(""), "");
}

TEST(GrpcWire, TrailersNameTheStatus) {
  EXPECT_OK(StatusOfTrailers("0", "ignored"));
  EXPECT_THAT(StatusOfTrailers("5", "no%20job"), StatusIs(absl::StatusCode::kNotFound, "no job"));
  EXPECT_THAT(StatusOfTrailers("16", ""), StatusIs(absl::StatusCode::kUnauthenticated));
  for (const char* code : {"17", "-1", "x", "", "99999999999"}) {
    EXPECT_THAT(StatusOfTrailers(code, "m"), StatusIs(absl::StatusCode::kUnknown, "m")) << code;
  }
}

TEST(GrpcWire, AnswersWithoutStatusHaveOneByTheirHttpStatus) {
  const std::pair<int, absl::StatusCode> table[] = {
      {400, absl::StatusCode::kInternal},         {401, absl::StatusCode::kUnauthenticated},
      {403, absl::StatusCode::kPermissionDenied}, {404, absl::StatusCode::kUnimplemented},
      {429, absl::StatusCode::kUnavailable},      {503, absl::StatusCode::kUnavailable},
      {200, absl::StatusCode::kUnknown},          {500, absl::StatusCode::kUnknown}};
  for (const auto& [http, code] : table) EXPECT_THAT(StatusOfHttp(http), StatusIs(code)) << http;
}

TEST(GrpcWire, ResetsHaveAStatus) {
  EXPECT_THAT(StatusOfReset(7), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(StatusOfReset(8), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(StatusOfReset(11), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(StatusOfReset(12), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(StatusOfReset(2), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(StatusOfReset(77), StatusIs(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace muster
