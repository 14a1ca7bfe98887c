// The examples of the S3 API reference, "Signature Calculations for the Authorization Header:
// Transferring Payload in a Single Chunk".
#include "common/object_store/sigv4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/object_store/remote_path.h"
#include "common/os/sha256.h"

namespace muster::testing {
namespace {

using ::testing::EndsWith;
using ::testing::Eq;
using ::testing::StartsWith;

const AwsCredentials kExample = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                 ""};
constexpr char kEmptySha256[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

absl::Time ExampleTime() {
  return absl::FromCivil(absl::CivilSecond(2013, 5, 24), absl::UTCTimeZone());
}

RequestToSign Get(const std::string& path, const std::string& query) {
  return RequestToSign{"GET",
                       path,
                       query,
                       {{"Host", "examplebucket.s3.amazonaws.com"},
                        {"x-amz-content-sha256", kEmptySha256},
                        {"x-amz-date", "20130524T000000Z"}},
                       kEmptySha256};
}

std::string Signed(const RequestToSign& request) {
  return SigV4Authorization(request, kExample, "us-east-1", ExampleTime());
}

TEST(SigV4, TheTimeIsWrittenAsAmazonWantsIt) {
  EXPECT_EQ(AmzDate(ExampleTime()), "20130524T000000Z");
}

TEST(SigV4, ARangeIsSignedAsInTheReference) {
  RequestToSign request = Get("/test.txt", "");
  request.headers.emplace_back("Range", "bytes=0-9");
  EXPECT_THAT(Signed(request),
              Eq("AWS4-HMAC-SHA256 "
                 "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
                 "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
                 "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"));
}

TEST(SigV4, AnUploadIsSignedAsInTheReference) {
  const std::string hash = Sha256Hex("Welcome to Amazon S3.");
  RequestToSign request = {"PUT",
                           "/" + PercentEncode("test$file.text", true),
                           "",
                           {{"Host", "examplebucket.s3.amazonaws.com"},
                            {"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                            {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
                            {"x-amz-date", "20130524T000000Z"},
                            {"x-amz-content-sha256", hash}},
                           hash};
  EXPECT_THAT(
      Signed(request),
      EndsWith("Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
}

TEST(SigV4, AParameterWithoutValueIsSignedAsInTheReference) {
  EXPECT_THAT(
      Signed(Get("/", EncodeQuery({{"lifecycle", ""}}))),
      EndsWith("Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
}

TEST(SigV4, AListIsSignedAsInTheReferenceWhateverTheOrderOfItsParameters) {
  EXPECT_THAT(
      Signed(Get("/", EncodeQuery({{"prefix", "J"}, {"max-keys", "2"}}))),
      EndsWith("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(SigV4, TheSecretIsNotInTheHeader) {
  EXPECT_THAT(Signed(Get("/", "")), ::testing::Not(::testing::HasSubstr("wJalrXUtn")));
  EXPECT_THAT(Signed(Get("/", "")), StartsWith("AWS4-HMAC-SHA256 "));
}

TEST(SigV4, SpacesInAHeaderDoNotChangeItsSignature) {
  RequestToSign one = Get("/", "");
  one.headers.emplace_back("x-amz-meta-a", "b  c ");
  RequestToSign other = Get("/", "");
  other.headers.emplace_back("X-Amz-Meta-A", " b c");
  EXPECT_EQ(Signed(one), Signed(other));
}

}  // namespace
}  // namespace muster::testing
