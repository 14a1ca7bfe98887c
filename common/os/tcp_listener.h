// A TCP socket that listens, for the servers that accept their connections themselves.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace muster {

struct TcpListener {
  UniqueFd fd;          // does not block
  std::string address;  // HOST:PORT as bound
};

// INVALID_ARGUMENT: `listen` is not HOST:PORT or [IPv6]:PORT. FAILED_PRECONDITION: it cannot be
// bound; the message names it. Port 0 picks one.
absl::StatusOr<TcpListener> ListenTcp(const std::string& listen);

}  // namespace muster
