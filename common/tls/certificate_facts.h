// What certificates and requests say, read from PEM text. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

struct CertificateFacts {
  std::vector<std::string> names;      // the common name, then other DNS names
  std::vector<std::string> addresses;  // of IPv4 and IPv6, as text
  std::string serial;              // lower-case hex
  std::string key_sha256;          // of the public key (SubjectPublicKeyInfo), lower-case hex
  absl::Time not_before;
  absl::Time not_after;
};

// Of the first certificate in `pem`. INVALID_ARGUMENT: there is none.
absl::StatusOr<CertificateFacts> ReadCertificateFacts(absl::string_view pem);

// `key_sha256` of a certificate that would be made from this request. INVALID_ARGUMENT: it is none.
absl::StatusOr<std::string> KeyOfRequest(absl::string_view pem);

// Whether the key of `authority` signed `certificate`, whatever the time is. False also for what
// is no certificate.
bool IsSignedBy(absl::string_view certificate, absl::string_view authority);

}  // namespace muster
