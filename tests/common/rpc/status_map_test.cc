#include "common/rpc/status_map.h"

#include <gtest/gtest.h>

#include <string>

#include "common/rpc/peer_limits.h"
#include "tests/support/status_matchers.h"

namespace muster {
namespace {

TEST(StatusMap, EveryCodeSurvivesTheRoundTripWithItsMessage) {
  for (int code = 1; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "job 42: no");
    EXPECT_EQ(static_cast<int>(ToGrpc(status).error_code()), code);
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_OK(FromGrpc(grpc::Status::OK));
}

TEST(StatusMap, ACodeOutsideTheListIsUnknown) {
  EXPECT_THAT(FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(77), "x")),
              testing::StatusIs(absl::StatusCode::kUnknown, ::testing::HasSubstr("x")));
}

TEST(StatusMap, ALongMessageIsCutAtACharacterAndSaysSo) {
  std::string text;
  while (text.size() < 2 * kMaxStatusMessageBytes) text += "\xC3\xA9";  // e with an accent
  const std::string cut = ToGrpc(absl::InvalidArgumentError(text)).error_message();
  EXPECT_LE(cut.size(), kMaxStatusMessageBytes);
  EXPECT_EQ(cut.substr(cut.size() - 3), "...");
  EXPECT_EQ((cut.size() - 3) % 2, 0u);
}

}  // namespace
}  // namespace muster
