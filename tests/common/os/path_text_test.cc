#include "common/os/path_text.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(PathText, SlashesAtTheEndGo) {
  EXPECT_EQ(WithoutTrailingSlashes("/data/in/"), "/data/in");
  EXPECT_EQ(WithoutTrailingSlashes("s3://bucket/in///"), "s3://bucket/in");
  EXPECT_EQ(WithoutTrailingSlashes("s3://bucket/"), "s3://bucket");
  EXPECT_EQ(WithoutTrailingSlashes("/data/in"), "/data/in");
}

TEST(PathText, ARootAndASchemeStay) {
  EXPECT_EQ(WithoutTrailingSlashes("/"), "/");
  EXPECT_EQ(WithoutTrailingSlashes("//"), "/");
  EXPECT_EQ(WithoutTrailingSlashes("s3://"), "s3://");
  EXPECT_EQ(WithoutTrailingSlashes(""), "");
}

}  // namespace
}  // namespace muster
