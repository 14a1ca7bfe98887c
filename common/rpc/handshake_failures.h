// Why TLS handshakes fail at a server's ports: gRPC tells nobody but its own log. Thread-safe.
#pragma once

#include <functional>

#include "absl/strings/string_view.h"

namespace muster {

// Hears of them in OpenSSL's words ("certificate verify failed") for as long as it lives; of those
// that this process begins as a client, too. gRPC's other lines go to our log, as debug lines
// unless GRPC_VERBOSITY asks for them.
class HandshakeFailures {
 public:
  // `hear` is called on gRPC's threads, one call at a time, and calls nothing of gRPC's.
  explicit HandshakeFailures(std::function<void(absl::string_view reason)> hear);
  ~HandshakeFailures();
  HandshakeFailures(const HandshakeFailures&) = delete;
  HandshakeFailures& operator=(const HandshakeFailures&) = delete;

 private:
  const std::function<void(absl::string_view)> hear_;
};

// The reason in a line of gRPC's log; empty: the line is about something else.
absl::string_view HandshakeFailureIn(absl::string_view line);

}  // namespace muster
