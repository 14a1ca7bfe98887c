#include "common/tls/certificate_authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "common/tls/openssl_types.h"
#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;
using Use = CertificateSubject::Use;

const absl::Duration kDay = absl::Hours(24);

OwnedCertificate Parse(const std::string& pem) {
  return OwnedCertificate(PEM_read_bio_X509(BioOf(pem).get(), nullptr, nullptr, nullptr));
}

// What OpenSSL's own verification makes of the certificate for `purpose`: X509_V_OK, or why not.
int Verify(const CertificateAuthority& authority, const std::string& pem, int purpose,
           absl::Time at) {
  const OwnedCertificate root = Parse(authority.certificate()), leaf = Parse(pem);
  X509_STORE* store = X509_STORE_new();
  X509_STORE_add_cert(store, root.get());
  X509_STORE_CTX* context = X509_STORE_CTX_new();
  X509_STORE_CTX_init(context, store, leaf.get(), nullptr);
  X509_VERIFY_PARAM_set_purpose(X509_STORE_CTX_get0_param(context), purpose);
  X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(context), X509_V_FLAG_X509_STRICT);
  X509_STORE_CTX_set_time(context, 0, absl::ToTimeT(at));
  const int result = X509_verify_cert(context) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(context);
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  return result;
}

class CertificateAuthorityTest : public ::testing::Test {
 protected:
  std::string SignedFor(const CertificateSubject& subject, absl::Duration lifetime = kDay) {
    auto certificate = authority_.Sign(request_, subject, now_, lifetime);
    EXPECT_TRUE(certificate.ok()) << certificate.status();
    return certificate.value_or("");
  }

  const absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  const CertificateAuthority authority_ = *CertificateAuthority::Make("muster", now_, 30 * kDay);
  const std::string request_ = *MakeSigningRequest(*MakePrivateKey());
};

TEST_F(CertificateAuthorityTest, AServersCertificateIsForItsHostsAndForServing) {
  const std::string pem =
      SignedFor({"controller", {"muster.example.org", "10.0.0.7", "::1"}, Use::kServer});
  EXPECT_EQ(Verify(authority_, pem, X509_PURPOSE_SSL_SERVER, now_), X509_V_OK);
  EXPECT_EQ(Verify(authority_, pem, X509_PURPOSE_SSL_CLIENT, now_), X509_V_ERR_INVALID_PURPOSE);
  const OwnedCertificate leaf = Parse(pem);
  EXPECT_EQ(X509_check_host(leaf.get(), "muster.example.org", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(leaf.get(), "example.org", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_ip_asc(leaf.get(), "10.0.0.7", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(leaf.get(), "::1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(leaf.get(), "10.0.0.8", 0), 0);
}

TEST_F(CertificateAuthorityTest, AWorkersCertificateCannotServe) {
  const std::string pem = SignedFor({.name = "node-1"});
  EXPECT_EQ(Verify(authority_, pem, X509_PURPOSE_SSL_CLIENT, now_), X509_V_OK);
  EXPECT_EQ(Verify(authority_, pem, X509_PURPOSE_SSL_SERVER, now_), X509_V_ERR_INVALID_PURPOSE);
}

TEST_F(CertificateAuthorityTest, ACertificateEndsWithItsLifetimeAndItsAuthority) {
  const std::string pem = SignedFor({.name = "node-1"});
  // Clocks differ a little.
  EXPECT_EQ(Verify(authority_, pem, X509_PURPOSE_SSL_CLIENT, now_ - absl::Minutes(50)), X509_V_OK);
  EXPECT_EQ(Verify(authority_, pem, X509_PURPOSE_SSL_CLIENT, now_ + kDay + absl::Seconds(1)),
            X509_V_ERR_CERT_HAS_EXPIRED);
  const OwnedCertificate root = Parse(authority_.certificate());
  const OwnedCertificate leaf = Parse(SignedFor({.name = "node-1"}, 400 * kDay));
  EXPECT_EQ(ASN1_TIME_compare(X509_get0_notAfter(root.get()), X509_get0_notAfter(leaf.get())), 0);
}

TEST_F(CertificateAuthorityTest, AnotherAuthoritysCertificateIsWorthNothing) {
  const auto other = *CertificateAuthority::Make("muster", now_, 30 * kDay);
  EXPECT_NE(Verify(other, SignedFor({.name = "node-1"}), X509_PURPOSE_SSL_CLIENT, now_), X509_V_OK);
  EXPECT_NE(*CertificateFingerprint(other.certificate()),
            *CertificateFingerprint(authority_.certificate()));
  EXPECT_EQ(CertificateFingerprint(authority_.certificate())->size(), 64u);
}

TEST_F(CertificateAuthorityTest, WhatASignedCertificateSignsIsWorthNothing) {
  const std::string key = *MakePrivateKey();
  const auto leaf = authority_.Sign(*MakeSigningRequest(key), {.name = "node-1"}, now_, kDay);
  ASSERT_OK(leaf.status());
  EXPECT_THAT(CertificateAuthority::Load(*leaf, key).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("not that of a CA")));
}

TEST_F(CertificateAuthorityTest, LoadsWhatItMade) {
  ASSERT_OK_AND_ASSIGN(const CertificateAuthority loaded,
                       CertificateAuthority::Load(authority_.certificate(), authority_.key()));
  ASSERT_OK_AND_ASSIGN(const std::string pem,
                       loaded.Sign(request_, {.name = "node-1"}, now_, kDay));
  EXPECT_EQ(Verify(authority_, pem, X509_PURPOSE_SSL_CLIENT, now_), X509_V_OK);
  EXPECT_THAT(CertificateAuthority::Load(authority_.certificate(), *MakePrivateKey()).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("key")));
  EXPECT_THAT(CertificateAuthority::Load("text", authority_.key()).status(),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(CertificateAuthorityTest, RefusesNamesThatWouldSayMore) {
  for (const char* name : {"", "a,DNS:b", "a b", "a\nb", "a/CN=b", "*"}) {
    EXPECT_THAT(authority_.Sign(request_, {.name = name}, now_, kDay).status(),
                StatusIs(StatusCode::kInvalidArgument))
        << name;
    EXPECT_THAT(authority_.Sign(request_, {"a", {name}, Use::kServer}, now_, kDay).status(),
                StatusIs(StatusCode::kInvalidArgument))
        << name;
  }
}

TEST_F(CertificateAuthorityTest, RefusesARequestThatIsNoneOrNotItsOwn) {
  EXPECT_THAT(authority_.Sign("text", {.name = "a"}, now_, kDay).status(),
              StatusIs(StatusCode::kInvalidArgument));
  // Another key under the first one's signature.
  const OwnedRequest request(
      PEM_read_bio_X509_REQ(BioOf(request_).get(), nullptr, nullptr, nullptr));
  const OwnedKey other(EVP_EC_gen("P-256"));
  X509_REQ_set_pubkey(request.get(), other.get());
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509_REQ(bio.get(), request.get());
  EXPECT_THAT(authority_.Sign(TextOf(bio.get()), {.name = "a"}, now_, kDay).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("own key")));
  // A short RSA key.
  const OwnedKey weak(EVP_RSA_gen(1024));
  const OwnedRequest weak_request(X509_REQ_new());
  X509_REQ_set_pubkey(weak_request.get(), weak.get());
  X509_REQ_sign(weak_request.get(), weak.get(), EVP_sha256());
  const OwnedBio weak_bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509_REQ(weak_bio.get(), weak_request.get());
  EXPECT_THAT(authority_.Sign(TextOf(weak_bio.get()), {.name = "a"}, now_, kDay).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("too short")));
}

}  // namespace
}  // namespace muster
