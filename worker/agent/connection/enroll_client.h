// Calls by which a machine gets and renews its certificate. Each waits for its answer, for a
// bounded time. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/protocol/join_token.h"
#include "common/tls/tls_files.h"

namespace muster::worker {

// What the controller says of its CA. Whoever answers says it: to be checked by the fingerprint.
struct AuthorityWord {
  std::string certificate;  // PEM
  absl::Time controller_time;
};

struct IssuedCertificate {
  std::string certificate;  // PEM
  absl::Time not_after;
  uint32_t worker_port = 0;      // of the controller; 0: not said
  std::string http_certificate;  // PEM, for the agent's HTTP port; empty: an older controller
  std::string scrape_token;      // of a join: what that port is to want; empty: there is none
};

// `address`: HOST:PORT of the people's port. UNAVAILABLE: nobody answers there, or not by TLS.
absl::StatusOr<AuthorityWord> AskAuthority(const std::string& address);

// `ca_file` holds the CA's certificate, by which the controller is known. Codes as
// enroll_service.proto says.
absl::StatusOr<IssuedCertificate> EnrollBy(const std::string& address, const std::string& ca_file,
                                           const JoinTokenText& token, const std::string& name,
                                           const std::string& request);

// `address`: of the workers' port; `tls`: the certificate that is renewed.
absl::StatusOr<IssuedCertificate> RenewBy(const std::string& address, const TlsFiles& tls,
                                          const std::string& request);

}  // namespace muster::worker
