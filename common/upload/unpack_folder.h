// Unpacks what PackFolder made, or somebody who means harm: nothing is written outside of the
// folder, whatever the archive says, and nothing but files, folders and links that stay inside.
// All of it may be read by others, whatever the umask: the folder that holds it says who gets
// there, and a container's user is another one than the one who unpacks.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// Makes the folder `into`, which must not be there; its parent must. INVALID_ARGUMENT: the archive
// is none, or holds what it may not; then the folder is left half made, for the caller to remove.
absl::Status UnpackFolder(absl::string_view archive, const std::string& into);

}  // namespace muster
