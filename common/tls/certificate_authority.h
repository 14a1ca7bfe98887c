// A small CA of a cluster's own, and what it signs: keys of ECDSA P-256 and X.509 certificates, as
// PEM text. Pure but for randomness; any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// Certificates are valid from so long before they are made: clocks differ.
inline constexpr absl::Duration kCertificateBackdate = absl::Hours(1);

// A new private key.
absl::StatusOr<std::string> MakePrivateKey();

// A certificate signing request, signed with `key`, that carries its public half. What it asks to
// be called does not matter: who signs decides. INVALID_ARGUMENT: `key` is none.
absl::StatusOr<std::string> MakeSigningRequest(const std::string& key);

// Lower-case hexadecimal SHA-256 of the first certificate in `pem`. INVALID_ARGUMENT: there is
// none.
absl::StatusOr<std::string> CertificateFingerprint(const std::string& pem);

// Whom a certificate is for.
struct CertificateSubject {
  enum class Use { kServer, kClient };  // it cannot be used as the other
  std::string name;                     // the common name
  std::vector<std::string> hosts;  // host names and IP addresses under which a server is reached
  Use use = Use::kClient;
};

class CertificateAuthority {
 public:
  static absl::StatusOr<CertificateAuthority> Make(absl::string_view name, absl::Time now,
                                                   absl::Duration lifetime);
  // INVALID_ARGUMENT: they are no certificate of a CA and its key.
  static absl::StatusOr<CertificateAuthority> Load(const std::string& certificate,
                                                   const std::string& key);

  const std::string& certificate() const { return certificate_; }
  const std::string& key() const { return key_; }

  // A certificate for the key in `request`, valid from kCertificateBackdate before `now` for
  // `lifetime`, at most as long as the CA's own. INVALID_ARGUMENT: the request is none, or not
  // signed with its own key, or its key is weak; a name or host has characters that no such name
  // has.
  absl::StatusOr<std::string> Sign(const std::string& request, const CertificateSubject& subject,
                                   absl::Time now, absl::Duration lifetime) const;

 private:
  CertificateAuthority(std::string certificate, std::string key)
      : certificate_(std::move(certificate)), key_(std::move(key)) {}

  std::string certificate_;
  std::string key_;
};

}  // namespace muster
