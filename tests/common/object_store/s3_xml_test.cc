#include "common/object_store/s3_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string List(const std::string& inside) {
  return absl::StrCat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>data</Name>",
      inside, "</ListBucketResult>");
}

TEST(S3Xml, AListIsRead) {
  ASSERT_OK_AND_ASSIGN(
      const S3ListPage page,
      ParseS3List(List("<IsTruncated>true</IsTruncated>"
                       "<NextContinuationToken>t&amp;1</NextContinuationToken>"
                       "<Contents><Key>a/1</Key><ETag>\"x\"</ETag><Size>12</Size></Contents>"
                       "<Contents><Size>0</Size><Key>a/&lt;2&gt;</Key></Contents>"
                       "<CommonPrefixes><Prefix>a/b/</Prefix></CommonPrefixes>")));
  ASSERT_EQ(page.objects.size(), 2u);
  EXPECT_EQ(page.objects[0].key, "a/1");
  EXPECT_EQ(page.objects[0].size_bytes, 12u);
  EXPECT_EQ(page.objects[1].key, "a/<2>");
  EXPECT_THAT(page.prefixes, ElementsAre("a/b/"));
  EXPECT_TRUE(page.is_truncated);
  EXPECT_EQ(page.next_token, "t&1");
}

TEST(S3Xml, NamesAreDecodedOnlyWhereTheyAreEncoded) {
  const std::string contents = "<Contents><Key>a%2Bb+c</Key><Size>1</Size></Contents>";
  ASSERT_OK_AND_ASSIGN(const S3ListPage raw, ParseS3List(List(contents)));
  EXPECT_EQ(raw.objects[0].key, "a%2Bb+c");
  ASSERT_OK_AND_ASSIGN(const S3ListPage encoded,
                       ParseS3List(List("<EncodingType>url</EncodingType>" + contents)));
  EXPECT_EQ(encoded.objects[0].key, "a+b c");
}

TEST(S3Xml, WhatIsNoListIsRefused) {
  for (const std::string& xml :
       {std::string(), std::string("{}"), std::string("<html></html>"),
        List("<Contents><Key>a</Key></Contents>"), List("<Contents><Size>1</Size></Contents>"),
        List("<Contents><Key>a</Key><Size>-1</Size></Contents>"),
        List("<IsTruncated>true</IsTruncated>"), List("<Contents>"),
        List("<EncodingType>url</EncodingType><Contents><Key>%</Key><Size>1</Size></Contents>"),
        List("<Contents><Key>" + std::string(20'000, 'x') + "</Key><Size>1</Size></Contents>")}) {
    EXPECT_THAT(ParseS3List(xml), StatusIs(absl::StatusCode::kInvalidArgument))
        << xml.substr(0, 200);
  }
}

TEST(S3Xml, NothingExpandsAndNothingNestsForEver) {
  EXPECT_THAT(ParseS3List("<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY a \"aaaa\">]>"
                          "<ListBucketResult>&a;</ListBucketResult>"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("document type")));
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += "<a>";
  EXPECT_THAT(ParseS3List(deep), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nested")));
}

TEST(S3Xml, AnErrorIsReadAsFarAsItGoes) {
  const S3Error error =
      ParseS3Error("<Error><Code>NoSuchKey</Code><Message>It is gone.</Message><Key>a</Key>");
  EXPECT_EQ(error.code, "NoSuchKey");
  EXPECT_EQ(error.message, "It is gone.");
  EXPECT_THAT(ParseS3Error("<html>no</html>").code, IsEmpty());
}

TEST(S3Xml, AnUploadHasAnId) {
  ASSERT_OK_AND_ASSIGN(
      const std::string id,
      ParseS3UploadId("<InitiateMultipartUploadResult><Bucket>b</Bucket><UploadId>VX</UploadId>"
                      "</InitiateMultipartUploadResult>"));
  EXPECT_EQ(id, "VX");
  EXPECT_THAT(ParseS3UploadId("<InitiateMultipartUploadResult/>"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace muster::testing
