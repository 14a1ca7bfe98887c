#include "common/tls/certificate_authority.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/tls/openssl_types.h"

namespace muster {
namespace {

constexpr int kLeastKeyBits = 224;  // of an elliptic curve; RSA's weak keys are far longer
constexpr int kLeastRsaBits = 2048;
constexpr size_t kSerialBytes = 16;
constexpr size_t kMaxNameBytes = 64;  // of a common name, by X.520
constexpr size_t kMaxHostBytes = 253;

// OpenSSL's own reason, and an empty queue of them for the next call.
absl::Status Failed(absl::string_view what) {
  char reason[256] = {};
  ERR_error_string_n(ERR_peek_last_error(), reason, sizeof reason);
  ERR_clear_error();
  return absl::InternalError(absl::StrCat(what, ": ", reason));
}

absl::Status Bad(absl::string_view what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(what);
}

absl::StatusOr<OwnedKey> ParseKey(const std::string& pem) {
  OwnedKey key(PEM_read_bio_PrivateKey(BioOf(pem).get(), nullptr, &NoPassword, nullptr));
  if (key == nullptr) return Bad("not a PEM private key");
  return key;
}

absl::StatusOr<OwnedCertificate> ParseCertificate(const std::string& pem) {
  OwnedCertificate certificate(PEM_read_bio_X509(BioOf(pem).get(), nullptr, &NoPassword, nullptr));
  if (certificate == nullptr) return Bad("not a PEM certificate");
  return certificate;
}

bool IsAddress(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

bool IsHostName(absl::string_view text, size_t longest) {
  return !text.empty() && text.size() <= longest &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ||
                  c == '_';
         });
}

absl::Status CheckSubject(const CertificateSubject& subject) {
  if (!IsHostName(subject.name, kMaxNameBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", absl::CHexEscape(subject.name), "` is no name for a certificate"));
  }
  for (const std::string& host : subject.hosts) {
    if (IsAddress(host) || IsHostName(host, kMaxHostBytes)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("`", absl::CHexEscape(host), "` is no host name and no IP address"));
  }
  return absl::OkStatus();
}

absl::Status AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const OwnedExtension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return Failed(absl::StrCat("cannot write ", OBJ_nid2sn(nid)));
  }
  return absl::OkStatus();
}

absl::Status SetSerial(X509* certificate) {
  unsigned char bytes[kSerialBytes];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return Failed("no random bytes");
  bytes[0] &= 0x7f;  // it is a positive number
  BIGNUM* number = BN_bin2bn(bytes, sizeof bytes, nullptr);
  const bool set = number != nullptr &&
                   BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return set ? absl::OkStatus() : Failed("cannot set a serial number");
}

// What every certificate has; the caller adds extensions and signs.
absl::StatusOr<OwnedCertificate> Begin(absl::string_view name, EVP_PKEY* key, absl::Time from,
                                       absl::Time until) {
  OwnedCertificate certificate(X509_new());
  if (certificate == nullptr) return Failed("no certificate");
  X509* raw = certificate.get();
  MUSTER_RETURN_IF_ERROR(SetSerial(raw));
  const std::string text(name);
  const time_t begin = absl::ToTimeT(from), end = absl::ToTimeT(until);
  const bool made =
      X509_set_version(raw, X509_VERSION_3) == 1 && X509_set_pubkey(raw, key) == 1 &&
      X509_NAME_add_entry_by_NID(X509_get_subject_name(raw), NID_commonName, MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(text.data()),
                                 static_cast<int>(text.size()), -1, 0) == 1 &&
      ASN1_TIME_set(X509_getm_notBefore(raw), begin) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(raw), end) != nullptr;
  if (!made) return Failed("cannot fill in a certificate");
  return certificate;
}

absl::StatusOr<std::string> SignedText(X509* certificate, EVP_PKEY* key) {
  if (X509_sign(certificate, key, EVP_sha256()) == 0) return Failed("cannot sign a certificate");
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(bio.get(), certificate) != 1) return Failed("cannot write a certificate");
  return TextOf(bio.get());
}

absl::Time TimeOf(const ASN1_TIME* time) {
  tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

absl::StatusOr<OwnedKey> PublicKeyOf(const std::string& request) {
  const OwnedRequest parsed(
      PEM_read_bio_X509_REQ(BioOf(request).get(), nullptr, &NoPassword, nullptr));
  if (parsed == nullptr) return Bad("not a PEM certificate signing request");
  OwnedKey key(X509_REQ_get_pubkey(parsed.get()));
  if (key == nullptr || X509_REQ_verify(parsed.get(), key.get()) != 1) {
    return Bad("the certificate signing request is not signed with its own key");
  }
  const int least = EVP_PKEY_get_base_id(key.get()) == EVP_PKEY_RSA ? kLeastRsaBits : kLeastKeyBits;
  if (EVP_PKEY_get_bits(key.get()) < least) return Bad("the request's key is too short");
  return key;
}

}  // namespace

absl::StatusOr<std::string> MakePrivateKey() {
  const OwnedKey key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failed("cannot make a key");
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PKCS8PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) !=
      1) {
    return Failed("cannot write a key");
  }
  return TextOf(bio.get());
}

absl::StatusOr<std::string> MakeSigningRequest(const std::string& key) {
  MUSTER_ASSIGN_OR_RETURN(const OwnedKey parsed, ParseKey(key));
  const OwnedRequest request(X509_REQ_new());
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  const bool made = request != nullptr && X509_REQ_set_pubkey(request.get(), parsed.get()) == 1 &&
                    X509_REQ_sign(request.get(), parsed.get(), EVP_sha256()) != 0 &&
                    PEM_write_bio_X509_REQ(bio.get(), request.get()) == 1;
  if (!made) return Failed("cannot make a certificate signing request");
  return TextOf(bio.get());
}

absl::StatusOr<std::string> CertificateFingerprint(const std::string& pem) {
  MUSTER_ASSIGN_OR_RETURN(const OwnedCertificate certificate, ParseCertificate(pem));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (X509_digest(certificate.get(), EVP_sha256(), digest, &size) != 1) return Failed("no digest");
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

absl::StatusOr<CertificateAuthority> CertificateAuthority::Make(absl::string_view name,
                                                                absl::Time now,
                                                                absl::Duration lifetime) {
  MUSTER_RETURN_IF_ERROR(CheckSubject({.name = std::string(name)}));
  MUSTER_ASSIGN_OR_RETURN(std::string key_text, MakePrivateKey());
  MUSTER_ASSIGN_OR_RETURN(const OwnedKey key, ParseKey(key_text));
  MUSTER_ASSIGN_OR_RETURN(const OwnedCertificate certificate,
                          Begin(name, key.get(), now - kCertificateBackdate, now + lifetime));
  X509* raw = certificate.get();
  X509_set_issuer_name(raw, X509_get_subject_name(raw));
  MUSTER_RETURN_IF_ERROR(
      AddExtension(raw, raw, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  MUSTER_RETURN_IF_ERROR(AddExtension(raw, raw, NID_key_usage, "critical,keyCertSign,cRLSign"));
  MUSTER_RETURN_IF_ERROR(AddExtension(raw, raw, NID_subject_key_identifier, "hash"));
  MUSTER_ASSIGN_OR_RETURN(std::string text, SignedText(raw, key.get()));
  return CertificateAuthority(std::move(text), std::move(key_text));
}

absl::StatusOr<CertificateAuthority> CertificateAuthority::Load(const std::string& certificate,
                                                                const std::string& key) {
  MUSTER_ASSIGN_OR_RETURN(const OwnedCertificate own, ParseCertificate(certificate));
  MUSTER_ASSIGN_OR_RETURN(const OwnedKey own_key, ParseKey(key));
  if (X509_check_ca(own.get()) == 0) return Bad("the certificate is not that of a CA");
  if (X509_check_private_key(own.get(), own_key.get()) != 1) {
    return Bad("the private key is not that of the CA's certificate");
  }
  return CertificateAuthority(certificate, key);
}

absl::StatusOr<std::string> CertificateAuthority::Sign(const std::string& request,
                                                       const CertificateSubject& subject,
                                                       absl::Time now,
                                                       absl::Duration lifetime) const {
  MUSTER_RETURN_IF_ERROR(CheckSubject(subject));
  MUSTER_ASSIGN_OR_RETURN(const OwnedKey key, PublicKeyOf(request));
  MUSTER_ASSIGN_OR_RETURN(const OwnedCertificate issuer, ParseCertificate(certificate_));
  MUSTER_ASSIGN_OR_RETURN(const OwnedKey issuer_key, ParseKey(key_));
  const absl::Time until = std::min(now + lifetime, TimeOf(X509_get0_notAfter(issuer.get())));
  MUSTER_ASSIGN_OR_RETURN(const OwnedCertificate certificate,
                          Begin(subject.name, key.get(), now - kCertificateBackdate, until));
  X509* raw = certificate.get();
  X509_set_issuer_name(raw, X509_get_subject_name(issuer.get()));
  const bool serves = subject.use == CertificateSubject::Use::kServer;
  std::vector<std::string> names;
  for (const std::string& host : subject.hosts) {
    names.push_back(absl::StrCat(IsAddress(host) ? "IP:" : "DNS:", host));
  }
  if (names.empty()) names.push_back(absl::StrCat("DNS:", subject.name));
  MUSTER_RETURN_IF_ERROR(
      AddExtension(raw, issuer.get(), NID_basic_constraints, "critical,CA:FALSE"));
  MUSTER_RETURN_IF_ERROR(
      AddExtension(raw, issuer.get(), NID_key_usage, "critical,digitalSignature"));
  MUSTER_RETURN_IF_ERROR(
      AddExtension(raw, issuer.get(), NID_ext_key_usage, serves ? "serverAuth" : "clientAuth"));
  MUSTER_RETURN_IF_ERROR(
      AddExtension(raw, issuer.get(), NID_subject_alt_name, absl::StrJoin(names, ",")));
  MUSTER_RETURN_IF_ERROR(AddExtension(raw, issuer.get(), NID_authority_key_identifier, "keyid"));
  return SignedText(raw, issuer_key.get());
}

}  // namespace muster
