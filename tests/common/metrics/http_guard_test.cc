#include "common/metrics/http_guard.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

TEST(HttpGuardTest, TheTokenIsShownAsABearerOrAsAPassword) {
  EXPECT_TRUE(ShowsToken("Bearer abc", "abc"));
  EXPECT_TRUE(ShowsToken("bearer abc", "abc"));
  EXPECT_TRUE(ShowsToken(absl::StrCat("Basic ", absl::Base64Escape("anybody:abc")), "abc"));
  for (const std::string& wrong :
       {std::string(""), std::string("abc"), std::string("Bearer"), std::string("Bearer "),
        std::string("Bearer abd"), std::string("Bearer abcd"), std::string("Basic ???"),
        absl::StrCat("Basic ", absl::Base64Escape("abc")),
        absl::StrCat("Basic ", absl::Base64Escape("abc:ab"))}) {
    EXPECT_FALSE(ShowsToken(wrong, "abc")) << wrong;
  }
}

TEST(HttpGuardTest, ProbesAreOpenAndNothingElse) {
  EXPECT_TRUE(IsOpenToAll("/healthz"));
  EXPECT_TRUE(IsOpenToAll("/readyz"));
  for (const char* path : {"/", "/metrics", "/sd", "/healthz/", "/healthz?x", "healthz"}) {
    EXPECT_FALSE(IsOpenToAll(path)) << path;
  }
}

}  // namespace
}  // namespace muster
