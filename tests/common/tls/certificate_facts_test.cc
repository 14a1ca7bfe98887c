#include "common/tls/certificate_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/tls/certificate_authority.h"
#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::testing::ElementsAre;

TEST(CertificateFactsTest, ReadsWhatWasSigned) {
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  ASSERT_OK_AND_ASSIGN(const CertificateAuthority authority,
                       CertificateAuthority::Make("ca", now, absl::Hours(1000)));
  ASSERT_OK_AND_ASSIGN(const CertificateAuthority other,
                       CertificateAuthority::Make("ca", now, absl::Hours(1000)));
  ASSERT_OK_AND_ASSIGN(const std::string key, MakePrivateKey());
  ASSERT_OK_AND_ASSIGN(const std::string request, MakeSigningRequest(key));
  ASSERT_OK_AND_ASSIGN(
      const std::string certificate,
      authority.Sign(request, {.name = "node-1", .hosts = {"node-1.example.org", "10.0.0.1"}}, now,
                     absl::Hours(24)));
  ASSERT_OK_AND_ASSIGN(const CertificateFacts facts, ReadCertificateFacts(certificate));
  EXPECT_THAT(facts.names, ElementsAre("node-1", "node-1.example.org"));
  EXPECT_EQ(facts.not_before, now - kCertificateBackdate);
  EXPECT_EQ(facts.not_after, now + absl::Hours(24));
  EXPECT_FALSE(facts.serial.empty());
  ASSERT_OK_AND_ASSIGN(const std::string of_request, KeyOfRequest(request));
  EXPECT_EQ(facts.key_sha256, of_request);
  EXPECT_EQ(of_request.size(), 64u);
  EXPECT_TRUE(IsSignedBy(certificate, authority.certificate()));
  EXPECT_FALSE(IsSignedBy(certificate, other.certificate()));
  EXPECT_FALSE(IsSignedBy("nothing", authority.certificate()));
  EXPECT_THAT(ReadCertificateFacts("nothing").status(), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(KeyOfRequest(certificate).status(), StatusIs(StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace muster
