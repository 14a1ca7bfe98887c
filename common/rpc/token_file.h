// The bearer token as text, and the file that holds it. Never log one. Any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Who may read the file. A group, where Kubernetes mounts a secret for a user that is not root.
enum class TokenReaders { kOwner, kGroup };

// Reads a token from the first line of a file. NOT_FOUND: no such file. PERMISSION_DENIED: it
// cannot be read, or others than `readers` may read or write it. INVALID_ARGUMENT: empty, longer
// than 256 bytes, or not printable ASCII.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path,
                                          TokenReaders readers = TokenReaders::kOwner);

// OK when `token` can be sent as it is: 1 to 256 printable ASCII bytes. INVALID_ARGUMENT otherwise;
// does not repeat it.
absl::Status CheckTokenText(absl::string_view token);

}  // namespace muster
