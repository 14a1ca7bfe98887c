// `muster-worker join`: a machine becomes a worker of a cluster. It makes a key, which never leaves
// the machine, gets a certificate for it by a join token, and writes what the agent starts with.
//
// In the data folder: tls/worker.key (0600), tls/worker.pem, tls/ca.pem; for its HTTP port
// tls/http.pem and scrape-token (0600); worker.yaml, which is kept where it is there. May be
// repeated: the key stays, so that a join whose answer was lost takes no second use of the token.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/fs/file_system.h"

namespace muster::worker {

// Whether the command line is `muster-worker join ...`.
bool IsJoinCommand(int argc, const char* const* argv);

// The text to print. Overwrites the token in `argv`, which others could read. INVALID_ARGUMENT: a
// flag or the token's text does not fit. UNAUTHENTICATED: who answers is not the controller that
// the token is of. FAILED_PRECONDITION: this machine's clock is wrong, or the controller cannot
// make certificates. Else as EnrollBy and FileSystem.
absl::StatusOr<std::string> RunJoinCommand(int argc, char** argv, FileSystem& fs, Clock& clock);

}  // namespace muster::worker
