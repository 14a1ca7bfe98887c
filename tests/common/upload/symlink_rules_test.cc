#include "common/upload/symlink_rules.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(IsUploadPath, OnlyPlainRelativePathsAre) {
  for (const char* good : {"a", "a/b.c", "...", "a/..b", "-", " "}) EXPECT_TRUE(IsUploadPath(good));
  for (const char* bad :
       {"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "./a"}) {
    EXPECT_FALSE(IsUploadPath(bad)) << bad;
  }
  EXPECT_FALSE(IsUploadPath(absl::string_view("a\0b", 3)));
  EXPECT_FALSE(IsUploadPath(std::string(kMaxUploadPathBytes + 1, 'a')));
  std::string deep = "a";
  for (size_t i = 0; i < kMaxUploadDepth; ++i) deep += "/a";
  EXPECT_FALSE(IsUploadPath(deep));
}

TEST(StaysInside, GoesUpNoFurtherThanTheLinkIsDeep) {
  EXPECT_TRUE(StaysInside("a", "b"));
  EXPECT_TRUE(StaysInside("x/y/a", "../../b"));
  EXPECT_TRUE(StaysInside("x/a", ".."));
  EXPECT_FALSE(StaysInside("a", ".."));
  EXPECT_FALSE(StaysInside("x/a", "../../etc"));
  EXPECT_FALSE(StaysInside("a", "/etc/passwd"));
  EXPECT_FALSE(StaysInside("a", ""));
  EXPECT_FALSE(StaysInside("x/y/a", "b/../../../etc")) << "b may be a link to somewhere higher";
  EXPECT_FALSE(StaysInside("a", absl::string_view("b\0c", 3)));
}

}  // namespace
}  // namespace muster
