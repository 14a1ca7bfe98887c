#include "controller/web/gateway/request_checks.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;

TEST(RequestChecksTest, OnlyNamesThatNoOtherMachineCanHaveAreLoopback) {
  for (const char* host : {"localhost", "LOCALHOST:80", "127.0.0.1", "127.8.0.1:7799", "[::1]:80"})
    EXPECT_TRUE(NamesLoopback(host)) << host;
  for (const char* host : {"", "muster.example", "127.evil.example", "127.0.0.1.evil.example",
                           "localhost.evil.example:80", "10.0.0.1", "[::2]", "1270.0.0.1"})
    EXPECT_FALSE(NamesLoopback(host)) << host;
}

ServedRequest Post(std::map<std::string, std::string> headers) {
  return {.path = "/api/v1/jobs/1/cancel", .is_post = true, .headers = std::move(headers)};
}

TEST(RequestChecksTest, PagesOfOtherSitesAreRefused) {
  const std::string json = "application/json";
  EXPECT_OK(CheckOrigin({.headers = {{"host", "localhost:80"}}}));
  EXPECT_OK(CheckOrigin(Post(
      {{"host", "m:80"}, {"origin", "https://m:80"}, {"content-type", json + "; charset=x"}})));
  for (const char* origin : {"http://evil.example", "http://m:81", "null", "http://m:80.evil"}) {
    EXPECT_THAT(CheckOrigin(Post({{"host", "m:80"}, {"origin", origin}, {"content-type", json}})),
                StatusIs(absl::StatusCode::kPermissionDenied))
        << origin;
  }
  EXPECT_THAT(CheckOrigin({.headers = {{"host", "m"}, {"origin", "http://evil.example"}}}),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST(RequestChecksTest, APostIsJson) {
  for (const char* type : {"", "text/plain", "application/x-www-form-urlencoded"}) {
    EXPECT_THAT(CheckOrigin(Post({{"host", "m"}, {"content-type", type}})),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << type;
  }
}

}  // namespace
}  // namespace muster::controller
