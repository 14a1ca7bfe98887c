#include "common/object_store/remote_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RemotePath, AKeyOfS3IsTakenAsItIs) {
  ASSERT_OK_AND_ASSIGN(const RemotePath path, ParseRemotePath("s3://data/a b/100%?x#y"));
  EXPECT_TRUE(path.is_s3);
  EXPECT_EQ(path.bucket, "data");
  EXPECT_EQ(path.key, "a b/100%?x#y");
}

TEST(RemotePath, ABucketHasAnEmptyKey) {
  ASSERT_OK_AND_ASSIGN(const RemotePath path, ParseRemotePath("s3://data"));
  EXPECT_EQ(path.key, "");
  ASSERT_OK_AND_ASSIGN(const RemotePath slash, ParseRemotePath("s3://data/"));
  EXPECT_EQ(slash.key, "");
}

TEST(RemotePath, AUrlIsEncodedWhereItMustBeAndNotTwice) {
  ASSERT_OK_AND_ASSIGN(const RemotePath path,
                       ParseRemotePath("http://host:8080/a b/%20/100%/\xC3\xA9#1?q=1"));
  EXPECT_FALSE(path.is_s3);
  EXPECT_EQ(path.url, "http://host:8080/a%20b/%20/100%25/%C3%A9%231?q=1");
}

TEST(RemotePath, AHostAloneIsItsRoot) {
  ASSERT_OK_AND_ASSIGN(const RemotePath path, ParseRemotePath("https://host"));
  EXPECT_EQ(path.url, "https://host/");
}

TEST(RemotePath, WhatNamesNothingIsRefused) {
  const std::string long_path = "s3://data/" + std::string(9000, 'x');
  for (const std::string& path :
       {std::string(), std::string("/data"), std::string("ftp://host/x"), std::string("s3://"),
        std::string("s3:///key"), std::string("s3://a/b"), std::string("s3://da ta/x"),
        std::string("http://"), std::string("http:///x"), std::string("http://:80/"),
        std::string("http://a b/"), std::string("http://h:x/"), std::string("http://a:b:1/"),
        std::string("http://[]/"), std::string("http://h/\r\nX: y"), std::string("s3://data/a\nb"),
        long_path}) {
    EXPECT_THAT(ParseRemotePath(path), StatusIs(absl::StatusCode::kInvalidArgument)) << path;
    EXPECT_EQ(IsRemotePath(path), path.find("s3:") == 0 || path.find("http:") == 0) << path;
  }
}

TEST(RemotePath, APasswordIsRefusedAndNotRepeated) {
  const auto parsed = ParseRemotePath("https://me:hunter2@host/x");
  EXPECT_THAT(parsed, StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("hunter2"))));
  EXPECT_THAT(ParseRemotePath("https://me:hun/ter2@host/x"),
              StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("ter2"))));
}

TEST(RemotePath, PeopleSeeNoQuery) {
  EXPECT_EQ(UrlForPeople("https://host/a?X-Amz-Signature=secret"), "https://host/a");
  EXPECT_EQ(UrlForPeople("https://u:p@host/a#f"), "https://host/a");
  EXPECT_EQ(UrlForPeople("s3://data/a@b"), "s3://data/a@b");
  EXPECT_EQ(UrlForPeople("http://host/deep/in/a@b"), "http://host/deep/in/a@b");
  EXPECT_LT(UrlForPeople(std::string(10'000, 'x')).size(), 600u);
}

TEST(RemotePath, EncodingAndDecodingAreInverse) {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
  ASSERT_OK_AND_ASSIGN(const std::string decoded, PercentDecode(PercentEncode(bytes, false)));
  EXPECT_EQ(decoded, bytes);
  EXPECT_EQ(PercentEncode("a/b c", true), "a/b%20c");
  EXPECT_EQ(PercentEncode("a/b", false), "a%2Fb");
  EXPECT_THAT(PercentDecode("%"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(PercentDecode("%4"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(PercentDecode("%zz"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(RemotePath, AFolderEndsInOneSlashBeforeItsQuery) {
  EXPECT_EQ(WithTrailingSlash("http://h/a"), "http://h/a/");
  EXPECT_EQ(WithTrailingSlash("http://h/a//?t=1"), "http://h/a/?t=1");
}

}  // namespace
}  // namespace muster::testing
