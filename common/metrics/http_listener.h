// A TCP socket that listens, for HttpServer.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace muster {

struct HttpListener {
  UniqueFd fd;          // does not block
  std::string address;  // HOST:PORT as bound
};

// INVALID_ARGUMENT: `listen` is not HOST:PORT or [IPv6]:PORT. FAILED_PRECONDITION: it cannot be
// bound; the message names it.
absl::StatusOr<HttpListener> ListenForHttp(const std::string& listen);

}  // namespace muster
