#include "common/os/host_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(HostPort, IsParsedAndJoined) {
  ASSERT_OK_AND_ASSIGN(const HostPort v6, ParseHostPort("[::1]:7070"));
  EXPECT_EQ(v6.host, "::1");
  EXPECT_EQ(JoinHostPort(v6), "[::1]:7070");
  for (const char* bad : {"", "7070", ":7070", "::1:7070", "h:", "h:-1", "h:65536", "[::1:7070",
                          "h:1x", "a[b:1", "[]:1"}) {
    EXPECT_THAT(ParseHostPort(bad), StatusIs(StatusCode::kInvalidArgument)) << bad;
  }
}

TEST(HostPort, AnAddressBeyondLoopbackIsRefusedWithTheWayOut) {
  EXPECT_OK(CheckAddressFlag("--listen", "localhost:1", false, "give"));
  EXPECT_OK(CheckAddressFlag("--listen", "0.0.0.0:1", true, "give"));
  EXPECT_THAT(
      CheckAddressFlag("--listen", "0.0.0.0:1", false, "give TLS, or give"),
      StatusIs(StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("--listen: 0.0.0.0:1"), HasSubstr("give TLS, or give --insecure"))));
  EXPECT_THAT(CheckAddressFlag("--listen", "7070", true, "give"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("--listen: `7070`")));
}

}  // namespace
}  // namespace muster
