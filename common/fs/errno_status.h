// What a failed system call on a file is as a status; the codes are file_system.h's.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// "cannot <action> <path>: <errno's text>".
absl::Status FileErrno(int error, absl::string_view action, const std::string& path);

}  // namespace muster
