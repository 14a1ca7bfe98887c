#include "common/protocol/join_token.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace muster {
namespace {

TEST(JoinTokenTest, IsReadAsItWasWritten) {
  const JoinTokenText token = {std::string(12, 'a'), std::string(64, 'b'), std::string(64, '0')};
  const std::string text = FormatJoinToken(token);
  ASSERT_OK_AND_ASSIGN(const JoinTokenText read, ParseJoinToken(text + "\n"));
  EXPECT_EQ(read.id, token.id);
  EXPECT_EQ(read.secret, token.secret);
  EXPECT_EQ(read.fingerprint, token.fingerprint);
  // A part of one, another's beginning, or more than one: and the message does not repeat it.
  for (const std::string& bad : {std::string(), text.substr(1), text.substr(0, text.size() - 1),
                                 text + "." + text, text + "0", std::string("muster-join...")}) {
    const auto parsed = ParseJoinToken(bad);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(parsed.status().message().find(token.secret), std::string::npos);
  }
}

}  // namespace
}  // namespace muster
