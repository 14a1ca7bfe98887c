// What became of a TLS handshake, in words that say what to do: gRPC tells it in OpenSSL's, or says
// no more than that the connection was closed.
#pragma once

#include "absl/status/status.h"
#include "common/tls/tls_files.h"

namespace muster::worker {

// `why` itself where it is of something else. Reads the files.
absl::Status ExplainHandshake(const absl::Status& why, const TlsFiles& tls);

}  // namespace muster::worker
