#include "common/rpc/handshake_failures.h"

#include <grpc/support/log.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster {
namespace {

TEST(HandshakeFailuresTest, TheReasonIsTheEndOfGrpcsLine) {
  EXPECT_EQ(HandshakeFailureIn("Handshake failed with fatal error SSL_ERROR_SSL: "
                               "error:0A000086:SSL routines::certificate verify failed."),
            "certificate verify failed");
  EXPECT_EQ(HandshakeFailureIn("Received a GOAWAY with error code ENHANCE_YOUR_CALM"), "");
}

TEST(HandshakeFailuresTest, AreHeardOfWhileTheListenerLives) {
  std::vector<std::string> heard;
  const auto fail = [] {
    gpr_log(GPR_ERROR, "Handshake failed with fatal error %s: %s.", "SSL_ERROR_SSL",
            "error:0A0000C7:SSL routines::peer did not return a certificate");
  };
  {
    const HandshakeFailures listener([&](absl::string_view reason) { heard.emplace_back(reason); });
    fail();
    gpr_log(GPR_ERROR, "something else");
  }
  fail();
  EXPECT_EQ(heard, std::vector<std::string>{"peer did not return a certificate"});
}

}  // namespace
}  // namespace muster
