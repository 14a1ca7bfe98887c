// `musterd init` and `musterd certify`: what a cluster needs before its first daemon starts beyond
// loopback. Both touch files alone, and may be repeated.
//
// init makes, under DATA-DIR, what is not there yet:
//   token                    of the people's port
//   scrape-token             of the HTTP port, where that is beyond loopback
//   tls/ca.pem, tls/ca.key   the cluster's own CA, for ten years; the key leaves this machine never
//   tls/server.pem, .key     musterd's certificate, anew each time, for the hosts that are named
//   musterd.yaml             a configuration that names them; kept if it is there
// certify makes a folder with a worker's certificate and key, and the CA's certificate.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"

namespace muster::controller {

// Whether the command line is one of the two.
bool IsSetupCommand(int argc, const char* const* argv);

// The text to print: what was made, and what to do next. INVALID_ARGUMENT: a flag or argument that
// does not fit. FAILED_PRECONDITION: certify where there was no init. Else as FileSystem.
absl::StatusOr<std::string> RunSetupCommand(int argc, const char* const* argv, FileSystem& fs,
                                            absl::Time now);

}  // namespace muster::controller
