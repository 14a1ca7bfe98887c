// Whom the certificate that a caller showed is for. Any thread.
#pragma once

#include <grpcpp/server_context.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// The common name and the alternative names; empty where the caller showed no certificate. nullopt:
// the connection is not encrypted.
using PeerNames = std::optional<std::vector<std::string>>;

PeerNames PeerNamesOf(const grpc::ServerContextBase& context);

// The certificate that the caller showed, as PEM text; empty: none.
std::string PeerCertificateOf(const grpc::ServerContextBase& context);

// PERMISSION_DENIED: the connection is encrypted, and the certificate is not for `worker`; the
// message says whose it is.
absl::Status CheckPeerIs(absl::string_view worker, const PeerNames& names);

}  // namespace muster
