#include "common/tls/certificate_facts.h"

#include <arpa/inet.h>
#include <openssl/asn1.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "common/base/status_macros.h"
#include "common/tls/openssl_types.h"

namespace muster {
namespace {

OwnedCertificate CertificateIn(absl::string_view pem) {
  OwnedCertificate certificate(
      PEM_read_bio_X509(BioOf(std::string(pem)).get(), nullptr, &NoPassword, nullptr));
  ERR_clear_error();
  return certificate;
}

absl::Time WhenOf(const ASN1_TIME* time) {
  tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::string HashOfKey(X509_PUBKEY* key) {
  unsigned char* der = nullptr;
  const int size = i2d_X509_PUBKEY(key, &der);
  if (size <= 0) return "";
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(der, static_cast<size_t>(size), digest);
  OPENSSL_free(der);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof digest));
}

std::string TextOfString(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

void AddName(std::string name, std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
}

// An address of 4 or 16 bytes as text; "" of another length.
std::string TextOfAddress(const ASN1_OCTET_STRING* address) {
  char text[INET6_ADDRSTRLEN] = {};
  const int bytes = ASN1_STRING_length(address);
  if (bytes != 4 && bytes != 16) return "";
  ::inet_ntop(bytes == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(address), text, sizeof text);
  return text;
}

void FillNames(X509* certificate, CertificateFacts& facts) {
  std::vector<std::string>& names = facts.names;
  X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at >= 0) {
    AddName(TextOfString(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at))), names);
  }
  auto* others = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(others); ++i) {
    const GENERAL_NAME* other = sk_GENERAL_NAME_value(others, i);
    if (other->type == GEN_DNS) AddName(TextOfString(other->d.dNSName), names);
    if (other->type == GEN_IPADD) AddName(TextOfAddress(other->d.iPAddress), facts.addresses);
  }
  GENERAL_NAMES_free(others);
}

std::string SerialOf(X509* certificate) {
  BIGNUM* number = ASN1_INTEGER_to_BN(X509_get_serialNumber(certificate), nullptr);
  char* text = number == nullptr ? nullptr : BN_bn2hex(number);
  const std::string hex = text == nullptr ? "" : absl::AsciiStrToLower(text);
  OPENSSL_free(text);
  BN_free(number);
  return hex;
}

}  // namespace

absl::StatusOr<CertificateFacts> ReadCertificateFacts(absl::string_view pem) {
  const OwnedCertificate certificate = CertificateIn(pem);
  if (certificate == nullptr) return absl::InvalidArgumentError("not a PEM certificate");
  CertificateFacts facts;
  FillNames(certificate.get(), facts);
  facts.serial = SerialOf(certificate.get());
  facts.key_sha256 = HashOfKey(X509_get_X509_PUBKEY(certificate.get()));
  facts.not_before = WhenOf(X509_get0_notBefore(certificate.get()));
  facts.not_after = WhenOf(X509_get0_notAfter(certificate.get()));
  ERR_clear_error();
  return facts;
}

absl::StatusOr<std::string> KeyOfRequest(absl::string_view pem) {
  const OwnedRequest request(
      PEM_read_bio_X509_REQ(BioOf(std::string(pem)).get(), nullptr, &NoPassword, nullptr));
  ERR_clear_error();
  if (request == nullptr) {
    return absl::InvalidArgumentError("not a PEM certificate signing request");
  }
  return HashOfKey(X509_REQ_get_X509_PUBKEY(request.get()));
}

bool IsSignedBy(absl::string_view certificate, absl::string_view authority) {
  const OwnedCertificate signed_one = CertificateIn(certificate);
  const OwnedCertificate issuer = CertificateIn(authority);
  if (signed_one == nullptr || issuer == nullptr) return false;
  const bool is_signed = X509_verify(signed_one.get(), X509_get0_pubkey(issuer.get())) == 1;
  ERR_clear_error();
  return is_signed;
}

}  // namespace muster
