#include "common/os/secrets.h"

#include "tests/support/status_matchers.h"

namespace muster {
namespace {

TEST(Secrets, RandomBytesAreAsManyAsAskedForAndNeverTheSame) {
  ASSERT_OK_AND_ASSIGN(const std::string bytes, RandomBytes(16));
  EXPECT_EQ(bytes.size(), 16u);
  ASSERT_OK_AND_ASSIGN(const std::string hex, RandomHex(32));
  EXPECT_EQ(hex.size(), 64u);
  EXPECT_EQ(hex.find_first_not_of("0123456789abcdef"), std::string::npos);
  ASSERT_OK_AND_ASSIGN(const std::string other, RandomHex(32));
  EXPECT_NE(hex, other);
}

TEST(Secrets, OnlyEqualOnesAreTheSame) {
  EXPECT_TRUE(IsSameSecret("", ""));
  EXPECT_TRUE(IsSameSecret("secret", "secret"));
  for (const char* other : {"", "s", "secreT", "Secret", "secrets"}) {
    EXPECT_FALSE(IsSameSecret("secret", other)) << other;
    EXPECT_FALSE(IsSameSecret(other, "secret")) << other;
  }
  EXPECT_FALSE(IsSameSecret("a", absl::string_view("a\0", 2)));
}

}  // namespace
}  // namespace muster
