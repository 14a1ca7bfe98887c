// The PEM files by which one side of a connection proves who it is and knows the other.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"

namespace muster {

// How often files that are in use are looked at for a change (tls_watcher.h), in seconds.
inline constexpr unsigned kTlsRefreshSeconds = 10;

struct TlsFiles {
  std::string ca;    // certificates, one of which must have signed the other side's
  std::string cert;  // this side's, followed by what leads to its CA; empty: it shows none
  std::string key;   // of `cert`, not encrypted

  bool empty() const { return ca.empty() && cert.empty() && key.empty(); }
};

// The text of a private key, whichever it is: each is read by this. PERMISSION_DENIED: others can
// use it, or its group can write it; the message says what to do. Else as FileSystem.
absl::StatusOr<std::string> ReadPrivateKey(FileSystem& fs, const std::string& path);

// Checks what is there before anything depends on it; the message names the file and the way out.
// NOT_FOUND, PERMISSION_DENIED: a file is not there, or cannot be read, or others can read the key.
// INVALID_ARGUMENT: not PEM, or the key is of another certificate. FAILED_PRECONDITION: `now` is
// before or after the time that a certificate is for.
absl::Status CheckTlsFiles(const TlsFiles& files, absl::Time now);

// FAILED_PRECONDITION: `ca` does not vouch for `cert` as a client's; a server that trusts the same
// CA refuses it. The message names both.
absl::Status CheckVouchedClient(const TlsFiles& files);

// "from Nov 28 18:00:51 2026 GMT to Dec 12 18:00:51 2026 GMT": the time that the file's first
// certificate is for. The codes of CheckTlsFiles.
absl::StatusOr<std::string> ValidityText(const std::string& cert);

}  // namespace muster
