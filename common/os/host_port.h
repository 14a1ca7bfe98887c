// Addresses of TCP as flags give them: HOST:PORT.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct HostPort {
  std::string host;  // without brackets
  int port = 0;
};
// "127.0.0.1:7070", "[::1]:0", "localhost:7070". INVALID_ARGUMENT for anything else.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view address);

// "[::1]:7070" for a host with colons.
std::string JoinHostPort(const HostPort& address);

// Whether a daemon may use the address that `flag` names. `may_leave`: what goes over it may go
// beyond loopback. INVALID_ARGUMENT: it is no HOST:PORT. FAILED_PRECONDITION: it would leave
// loopback; the message gives `way_out`, which ends before "--insecure".
absl::Status CheckAddressFlag(absl::string_view flag, const std::string& address, bool may_leave,
                              absl::string_view way_out);

}  // namespace muster
