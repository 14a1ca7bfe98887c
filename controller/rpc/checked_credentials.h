// gRPC server credentials whose calls are asked for their token as soon as
// their headers are there: of a stranger no message is read, and no thread or handler learns of it.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/tls/tls_files.h"

namespace muster::controller {

// Whether the call may go on: `path` is "/package.Service/Method", `authorization` what the caller
// sent under that key, empty: nothing. Not OK: the call ends with that. Any thread; must not block.
using CallCheck =
    std::function<absl::Status(absl::string_view path, absl::string_view authorization)>;

// Whether who shows this certificate (PEM) may call. Not OK: each call ends with that. As
// CallCheck.
using CertificateCheck = std::function<absl::Status(absl::string_view certificate)>;

// How connections are made.
struct ConnectionSecurity {
  TlsFiles tls = {};  // empty: nothing is encrypted. Requires CheckTlsFiles
  // Who connects must show a certificate that `tls.ca` signed; else the handshake fails.
  bool of_known_clients = false;
  CertificateCheck check_certificate = nullptr;  // of those clients; null: all may
  unsigned refresh_seconds = kTlsRefreshSeconds;
};

std::shared_ptr<grpc::ServerCredentials> MakeCheckedCredentials(const ConnectionSecurity& security,
                                                                CallCheck check);

}  // namespace muster::controller
